"""Callbacks that have other libraries report to tune and save checkpoints, one file for each library.

A module here imports its library when it is imported itself; none of them is imported by the rest of tune.
"""
