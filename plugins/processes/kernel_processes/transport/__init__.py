"""Connections between processes: authentication, framed batches, and the loop that waits for them.

Nothing here knows what a task or an object is; see `kernel_processes.protocol` for what is said.
"""
