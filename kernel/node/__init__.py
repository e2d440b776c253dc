"""The node agent: one process per machine that holds its resources, its workers and its object store.

On the head it also hosts the control service. It is not on the path of a task once a lease is held.
"""
