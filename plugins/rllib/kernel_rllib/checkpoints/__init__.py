"""Checkpoints: what training needs to go on, as files that anybody can read and that run nothing when they are read."""
