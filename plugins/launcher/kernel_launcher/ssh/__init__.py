"""Machines reached by the system's `ssh`: one connection for each, over which commands run and files go."""
