"""The node agent: one process per machine, which holds the machine's resources, its workers and its object store.

It may host the head as well. It is not on the path of a task once a lease is held.
"""
