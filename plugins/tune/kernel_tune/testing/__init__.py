"""Conformance suites and a simulated experiment, for authors of searchers and schedulers."""
