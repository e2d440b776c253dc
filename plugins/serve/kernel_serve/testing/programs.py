"""Tests that are coroutines: running one, and waiting in it until something holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

PROGRAM_SECONDS = 10.0


def run(program: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return what `program()` returns. Raises TimeoutError if it takes more than ten seconds."""
    return asyncio.run(asyncio.wait_for(program(), PROGRAM_SECONDS))


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Return as soon as `condition()` is true. Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.001)
