"""Connect remote drivers, which can't be dialled, with the nodes of the cluster, through the one port of the head.

`service` decides with `table` which connections to join, `process` passes the bytes, `link` is the far end.
"""
