"""The border between the public API and an engine: what is asked of its runtime, and the values that travel through.

`interface` says what a runtime does, and `current` has the one of this process. Nothing here moves anything: engines do
(`kernel_engine` is what they are made of, `kernel_processes` and `kernel_local_mode` are two).
"""
