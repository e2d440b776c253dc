"""How routers and replicas talk: many exchanges over one link, with flow control, and no pickle where bytes will do.

`link.py` is the protocol without any input or output; `unix.py` carries it on a machine, `tunnel.py` to another one.
"""
