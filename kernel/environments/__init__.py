"""Runtime environments: the builders of the kernel's own fields, and the table of all builders.

Programs use them to check and prepare a runtime_env, nodes to set up workers for it (`kernel_spec.environments`).
"""
