"""`kernel tune`, also as `tune`: experiments on the command line."""
