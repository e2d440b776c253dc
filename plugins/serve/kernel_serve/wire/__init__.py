"""Links between routers and replicas: many exchanges over one link, with flow control, and without pickle for bytes.

`link.py` is the protocol without any input or output; `unix.py` carries it on a machine, `tunnel.py` to another one.

These links are used rather than an actor's calls and streams for these numbers, measured on 2026-11-27 (`python -m
benchmarks.serve_parts --only links`: between the same two processes, by turns, on two busy CPUs; medians): a small call
takes 0.04 ms, not 0.13; with 8 in flight there are 1.7 times as many; streams of 64 KB are 5 times as quick, those of
small pieces 8 times. One value of 10 MB is 1.7 times as slow as by the object store: that is why handles put large
arguments and results there.
"""
