"""Recognise jobs of detached actors: their output is for every program, not for one driver."""

DETACHED = b"detached:"
"""The prefix of the ids of jobs of detached actors."""
