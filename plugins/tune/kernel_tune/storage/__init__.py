"""Storage: the log of an experiment, its checkpoints, and copies of both elsewhere."""
