"""Algorithms: each is one file with its settings, its loss and its step; what families share is beside them."""
