"""The engine of `kernel.init(local_mode=True)`: tasks, actors and objects of one process that is all there is.

It shares tables, serialization and errors with `kernel.runtime`; what processes do elsewhere, threads do here.
"""
