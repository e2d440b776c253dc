"""Connections between the processes of one machine: authentication, framed batches, and the loop that waits for them.

What leads to other machines is a network's (`networks`). Nothing here knows what a task or an object is; see
`kernel_processes.protocol` for what is said.
"""
