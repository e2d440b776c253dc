"""The engine of `kernel.init(local_mode=True)`: tasks, actors and objects in one process, without any other.

It shares tables, serialization and errors with `kernel.runtime`, and uses threads in place of processes.
"""
