"""What a worker adds to a process that runs user code: it serves tasks and actor calls of others."""
