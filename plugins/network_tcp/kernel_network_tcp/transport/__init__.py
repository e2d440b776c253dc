"""Connections over TCP: dialled and accepted, in TLS or plainly, resumed after a cut.

Frames and messages are the same as over a UNIX socket: see `kernel_processes.transport`.
"""
