"""Failures: the errors of tasks with the user's lines, those of the engine, and those that were never asked for."""
