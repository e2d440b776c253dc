"""Tests that are coroutines: running one, waiting in it until something holds, and a server's time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_serve.proxy.server import HTTPServer

PROGRAM_SECONDS = 120.0
"""How long a program may take, and what it waits for: the machine may be busy."""


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
    """The time of an `HTTPServer`, which stands still but for what a test lets pass."""

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._now = server.state.now()
        server.state.now = lambda: self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and have the server look whose time is over."""
        self._now += seconds
        if self._server._sweeping is not None:
            self._server._sweeping.cancel()
        self._server._sweep()
