"""Search ahead in an environment before acting: trees of what may follow, and what steps a copy of the environment."""
