"""The field `conda` of a runtime_env: conda environments that nodes build, or have, for the workers that ask for them.

`description` reads what was given, `builder` is the contract, `installation` builds with py-rattler, `existing` finds
environments that a node has, `interpreter` joins one with the node's packages, `plugin` offers it to the kernel.
"""
