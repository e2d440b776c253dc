"""What engines are made of that run everything in the program's own process.

`OneProcessCore` has objects, streams and the names of actors. An engine inherits `OneProcessRuntime`, makes a `Call` of
whatever is submitted, and decides when and in which thread it runs.
"""
