"""The default object store: one arena of shared memory a node, mapped by every process.

`allocator.py` finds space, `table.py` knows every object, `machine.py` decides (pure), `arena.py` is the memory,
`server.py` and `client.py` are the two halves of the contract in `kernel_spec.store`.
"""

from kernel_store_plasma.store import PlasmaStore

__all__ = ["PlasmaStore"]
