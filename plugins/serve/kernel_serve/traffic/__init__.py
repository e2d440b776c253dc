"""Choose where a request from outside goes: the endpoint by its path and method, the target by weight or by a key.

`endpoint_table.py` has the table of a proxy's endpoints; it is made of `paths.py`, `turns.py` and `sticky.py`. All of
it is computed from values: nothing here reads a clock or a socket.
"""
