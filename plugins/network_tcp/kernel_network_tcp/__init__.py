"""The network of TCP: one port for each node, objects from store to store, and a relay for programs outside.

`network.py` opens it, as `kernel_spec.networks` asks. `gateway.py` is the port, `agent_links.py` has the connections
between agents, `transfer/` copies objects, `relay/` connects programs that can't be dialled.
"""
