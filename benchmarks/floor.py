"""The floor: the same work in bare CPython, two processes and a socket pair, with no system around it.

A call is a pickled tuple (number, function, arguments), a result a pickled (number, value). That is the least that
any system for calling functions in other processes has to do.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import shared_memory
from typing import Any

_LENGTH = struct.Struct("<I")
_IN_FLIGHT = 1000
_BATCH = 100


def call_rate(seconds: float) -> float:
    """Return round trips a second, one call at a time."""
    with _worker() as call:
        return _best_rate(lambda: len(call([0])), seconds)


def pipelined_rate(seconds: float) -> float:
    """Return calls a second, a thousand in flight and a hundred in a batch."""
    with _worker() as call:
        return _best_rate(lambda: len(call(range(_IN_FLIGHT))), seconds)


def copy_rate(seconds: float, size: int = 100 << 20) -> float:
    """Return GB/s of copying an array into warm shared memory."""
    import numpy as np

    source = np.ones(size // 8)
    memory = shared_memory.SharedMemory(create=True, size=size)
    try:
        return _best_rate(_copier(source, memory.buf), seconds)
    finally:
        memory.close()
        memory.unlink()


def _copier(source: Any, buffer: Any) -> Callable[[], float]:
    """Return a function that copies `source` into `buffer` and says how many GB that was."""
    from_bytes, to_bytes = memoryview(source).cast("B"), buffer

    def copy() -> float:
        to_bytes[: from_bytes.nbytes] = from_bytes
        return from_bytes.nbytes / 1e9

    return copy


FLOORS: dict[str, Callable[[float], float]] = {
    "call": call_rate,
    "pipelined": pipelined_rate,
    "copy": copy_rate,
}
"""Name to measurement; each takes the seconds to measure for."""


def _best_rate(lap: Callable[[], float], seconds: float) -> float:
    """Return the best of three windows, in what `lap` returns per second."""
    lap()
    best = 0.0
    for _ in range(3):
        done, started = 0.0, time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds / 3:
            done += lap()
        best = max(best, done / spent)
    return best


@contextmanager
def _worker() -> Iterator[Callable[[Any], dict[int, Any]]]:
    """Fork a worker and yield a function that has it make calls and returns their results."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            _serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    reader = ours.makefile("rb", 1 << 20)

    def call(numbers: Any) -> dict[int, Any]:
        calls = [(number, "answer", pickle.dumps((), 5)) for number in numbers]
        for begin in range(0, len(calls), _BATCH):
            _send(ours, calls[begin : begin + _BATCH])
        results: dict[int, Any] = {}
        while len(results) < len(calls):
            results.update((number, pickle.loads(value)) for number, value in _receive(reader))
        return results

    try:
        yield call
    finally:
        reader.close()
        ours.close()
        os.waitpid(pid, 0)


def _serve(sock: socket.socket) -> None:
    functions = {"answer": lambda: b"ok"}
    reader = sock.makefile("rb", 1 << 20)
    while True:
        try:
            calls = _receive(reader)
        except EOFError:
            return
        _send(sock, [(n, pickle.dumps(functions[name](*pickle.loads(args)), 5)) for n, name, args in calls])


def _send(sock: socket.socket, value: Any) -> None:
    data = pickle.dumps(value, 5)
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _receive(reader: Any) -> Any:
    head = reader.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return pickle.loads(reader.read(_LENGTH.unpack(head)[0]))
