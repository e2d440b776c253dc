"""Parallel helpers on kernel: pools, queues, iterators, collective operations, locks and progress bars.

Each name is in a file of its own, and is loaded when it is first used.
"""
