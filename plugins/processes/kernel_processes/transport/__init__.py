"""Connections between the processes of one machine: authentication, framed batches, and the loop that waits for them.

Connections to other machines are those of a network (`networks`). Nothing here depends on tasks or objects; see
`kernel_processes.protocol` for the messages.
"""
