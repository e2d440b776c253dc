"""Trainables: what a run does, as functions and as classes, found by name."""
