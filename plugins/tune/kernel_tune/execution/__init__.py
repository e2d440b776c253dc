"""Execution: the trial loop, which decides, and the runner, which carries out."""
