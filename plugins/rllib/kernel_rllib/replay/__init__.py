"""Replay: rings of columns that learners draw from, evenly or by priority."""
