"""The parts of engines that run everything in the program's own process.

`OneProcessCore` has objects, streams and the names of actors. An engine inherits `OneProcessRuntime`, makes a `Call` of
each submitted task, and decides when and in which thread it runs.
"""
