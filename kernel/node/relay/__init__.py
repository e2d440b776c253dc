"""The way between remote drivers, whom nobody can dial, and the nodes of the cluster: by the one port of the head.

`service` decides with `table` who is joined to whom, `process` passes the bytes, `link` is the far end of it.
"""
