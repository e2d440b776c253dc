"""Applications in this process alone, for tests: `serve.run(app, _local_testing_mode=True)`."""
