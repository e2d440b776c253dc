"""What every process that runs user code carries: submitting, owning, counting references, executing.

Nothing here decides where work runs; that is the scheduler's, and the node agent carries it out.
"""
