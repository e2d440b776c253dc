"""Environments: one contract for many lanes of them, and what makes any environment fit it.

`contract.py` says what runners see; `making.py` chooses how lanes are stepped (loop, native, processes, actors).
"""
