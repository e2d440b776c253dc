"""Environments: one contract for many lanes of them, and adapters for any environment.

`contract.py` says what runners see; `making.py` chooses how lanes are stepped (loop, native, processes, actors).
"""
