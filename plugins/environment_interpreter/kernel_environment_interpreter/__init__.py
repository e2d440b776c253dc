"""The field `py_executable` of a runtime_env: the interpreter, or the command that runs one, for workers.

`command` reads what was given, `builder` is the contract, `interpreter` tries the command on a node, `plugin` offers it
to the kernel.
"""
