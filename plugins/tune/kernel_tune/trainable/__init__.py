"""Trainables: what a trial runs, as functions and as classes, and the process that runs it."""
