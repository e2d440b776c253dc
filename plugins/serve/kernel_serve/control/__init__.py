"""What decides: which replicas and proxies there are to be, and who is told of them.

`state.py` and what it imports are pure: events and times in, instructions out. `controller.py` is their shell.
"""
