"""Programs to start from; each has `--smoke-test` for a short form."""
