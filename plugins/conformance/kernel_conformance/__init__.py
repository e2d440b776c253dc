"""Suites of tests for plugins, `kernel.conformance`: each contract of `kernel_spec` has one, in a file of its own.

Subclass it, say how to make yours, and run pytest; `kernel plugins check` runs the same without pytest. What an
implementation does not promise it says by class attributes.
"""
