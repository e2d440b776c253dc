"""Results and errors that go through the object store: they wait in the replica until their caller collects them.

The caller collects a value as the result of a call of the replica's actor. So the caller owns it, as the results of all
calls of actors, and it outlives the replica. An error is raised by that call, and travels as errors of actors do.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple

from kernel_serve.errors import ServeError
from kernel_serve.wire.link import Exchange


class RaisedError(NamedTuple):
    """Holds an exception of a call, and its traceback as text."""

    error: Exception
    described: str


class StoredResults:
    """Holds the values that wait. `offer` is for the data loop, `collect` for any thread."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[Any, asyncio.Future[None]]] = {}

    async def offer(self, exchange: Exchange, value: Any) -> None:
        """Tell the caller that there is a value to collect; return when it was collected.

        When the exchange ends before its time, the calling task is cancelled, and the value is dropped.
        """
        collected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = value, collected
        try:
            exchange.send(
                {"stored": number, "error": value.described} if type(value) is RaisedError else {"stored": number}
            )
            await collected
        finally:
            self._waiting.pop(number, None)

    def collect(self, number: int) -> Any:
        """Return a waiting value, once; raise it, if it is an error.

        Raises ServeError if the value was dropped.
        """
        found = self._waiting.pop(number, None)
        if found is None:
            raise ServeError(f"result {number} is not there any more: its call was cancelled, or its link was lost")
        value, collected = found
        collected.get_loop().call_soon_threadsafe(_settle, collected)
        if type(value) is RaisedError:
            raise value.error
        return value


def _settle(collected: asyncio.Future[None]) -> None:
    if not collected.done():
        collected.set_result(None)
