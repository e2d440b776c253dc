"""Helpers for tests of training functions."""
