"""Chaos: work with known results on a cluster of several nodes, while everything that can fail does.

`work` is what is computed and checked, `disturbances` are the faults, `references` is a model of who holds what, and
`__main__` lets them loose on each other: `python -m benchmarks.chaos --minutes 10 --seed 1`.
"""
