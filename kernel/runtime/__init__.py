"""The interface between the public API and an engine: the protocol of its runtime, and the values that pass through.

`interface` defines a runtime, and `current` has the runtime of this process. The work is done by engines: they are made
of parts of `kernel_engine`; `kernel_processes` and `kernel_local_mode` are two.
"""
