"""Callbacks: what of the user's is called when, with which arguments, and what it may report."""
