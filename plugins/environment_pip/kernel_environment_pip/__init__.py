"""The fields `pip` and `uv` of a runtime_env: packages that nodes install for the workers that ask for them.

`requirements` reads what was given, `builder` is the contract, `virtual_environment` does the work on a node, `plugin`
offers it to the kernel.
"""
