"""What every process that runs user code carries: submitting, owning, counting references.

Nothing here decides where work runs; that is the scheduler's, and the node agent carries it out. What a
worker adds, to execute tasks of others, is `kernel.worker`.
"""
