"""Conformance suites for plugin authors, fixtures for running sessions, and fault injection.

Each contract of `kernel_spec` has a suite in a file of its own; subclass it, say how to make yours, and run pytest.
"""
