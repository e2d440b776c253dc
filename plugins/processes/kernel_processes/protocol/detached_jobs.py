"""Jobs of detached actors: their output is of every program's concern, not of one driver's."""

DETACHED = b"detached:"
"""The prefix of the ids of jobs of detached actors."""
