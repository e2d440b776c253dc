"""Which way a request from outside goes: the endpoint by its path and method, the target by weight or by a key.

`routes.py` is the table of a proxy's endpoints; it is made of `paths.py`, `turns.py` and `sticky.py`. All is computed
from values: nothing here reads a clock or a socket.
"""
