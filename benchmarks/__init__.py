"""How fast kernel is, measured beside what bare CPython can do on the same machine (`python -m benchmarks`).

`rows.py` holds the programs, `floor.py` the same work without any system, `run.py` the table; `soak.py` breaks things,
`transfer.py` moves large objects between nodes.
"""
