"""An engine that runs tasks in a pool of threads, and each actor in a thread of its own: an example to learn from.

`engine.py` opens a session, `runtime.py` is what the public API calls, `calls.py` runs one call, `objects.py` keeps
values, `cpus.py` says when a task may run, `actor.py` is an actor.
"""
