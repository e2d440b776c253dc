"""Decide which replicas and proxies there should be, and publish where requests go.

`state.py` and what it imports are pure: events and times in, instructions out. `controller.py` is their shell.
"""
