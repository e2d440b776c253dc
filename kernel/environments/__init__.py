"""Runtime environments, field by field: the builders that come with the kernel, and the table of all builders.

Programs ask them what a runtime_env means, nodes ask them what a worker in it is given (`kernel_spec.environments`).
"""
