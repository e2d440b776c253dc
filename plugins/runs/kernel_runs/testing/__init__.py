"""Helpers for tests of what runs: a training function without an experiment."""
