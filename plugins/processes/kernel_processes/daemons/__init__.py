"""The programs that serve a session in the background: a node's agent, and a head that runs in a process of its own.

They are put together here from parts of `kernel_processes.node` and `kernel_processes.head`. Those two packages do not
import each other; they communicate by messages only.
"""
