"""Callbacks by which other libraries report to tune and save checkpoints, one file for each library.

A module here imports its library when it is imported itself. The rest of tune imports none of them.
"""
