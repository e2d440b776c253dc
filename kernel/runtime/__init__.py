"""The part of every process that runs user code: it submits tasks, owns objects, and counts references.

Nothing here decides where work runs: the scheduler does, and the node agent carries it out. `kernel.worker` is what a
worker adds, to execute tasks of other processes.
"""
