"""The head decides what the whole session must agree on: nodes, leases, actors and their names, jobs, key-value.

Pure state machines decide, and services around them talk to the nodes. The head's own process is
`kernel_processes.daemons.head_main`; a session that ends with its program has the head in the process of its agent
(`kernel_processes.daemons.local_head`).
"""
