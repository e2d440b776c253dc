"""Helpers for tests that are coroutines: run one, wait in it for a condition, and stop a server's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_serve.proxy.server import HTTPServer

PROGRAM_SECONDS = 120.0
"""The longest time in seconds for a program, and for what it waits for: the machine may be busy."""


def run(program: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return what `program()` returns. Raises TimeoutError if it takes more than two minutes."""
    return asyncio.run(asyncio.wait_for(program(), PROGRAM_SECONDS))


async def until(condition: Callable[[], bool], seconds: float = PROGRAM_SECONDS) -> None:
    """Return as soon as `condition()` is true. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.001)


class StoppedClock:
    """The clock of an `HTTPServer`, which stands still until a test moves it."""

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._now = server.state.now()
        server.state.now = lambda: self._now

    def pass_by(self, seconds: float) -> None:
        """Move the clock, and have the server check its deadlines."""
        self._now += seconds
        if self._server._sweeping is not None:
            self._server._sweeping.cancel()
        self._server._sweep()
