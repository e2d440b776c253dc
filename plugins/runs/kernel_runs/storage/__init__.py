"""Storage: the directories of runs and of their checkpoints, and copies of them elsewhere."""
