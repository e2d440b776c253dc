"""The programs that serve a session in the background: the agent of a node, and the head where it is one of its own.

Each is put together here from parts of `kernel_processes.node` and `kernel_processes.head`, which know of each other by
messages alone.
"""
