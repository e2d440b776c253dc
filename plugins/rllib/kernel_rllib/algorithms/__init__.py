"""Algorithms: each is one file with its settings, its loss and its step; what they share is beside them."""
