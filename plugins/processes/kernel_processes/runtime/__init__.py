"""The part of every process that runs user code: it submits tasks to workers, and reaches owners and the store.

Nothing here decides where work runs: the scheduler does, and the node agent carries it out. `kernel_processes.worker`
is what a worker adds, to execute tasks of other processes.
"""
