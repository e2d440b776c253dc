"""`kernel serve ...` and `serve ...`."""
