"""Connections over TCP: dialled and accepted, in TLS or plainly, resumed after a cut.

What is framed and read is the same as over a UNIX socket: see `kernel_processes.transport`.
"""
