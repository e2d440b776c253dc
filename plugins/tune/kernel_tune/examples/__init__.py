"""Example programs. With `--smoke-test` they run in a short form."""
