"""An actor for tests, and what tests ask of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import kernel

SECONDS = 300.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@kernel.remote
class Actor:
    def pid(self) -> int:
        return os.getpid()

    def parent(self) -> int:
        return os.getppid()

    def end(self, code: int) -> None:
        os._exit(code)

    def block(self) -> None:
        import ctypes

        ctypes.PyDLL(None).sleep(100_000)  # It keeps the interpreter's lock: nothing else runs in this process.


def has_ended(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")
