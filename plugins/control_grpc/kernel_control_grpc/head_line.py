"""From the server's thread to the head's loop and back: whatever is asked of the head runs there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kernel_processes.head.deferred import Deferred
from kernel_processes.transport.reactor import Reactor


class HeadLine:
    """Calls functions in the loop of `reactor`, for coroutines of another loop."""

    def __init__(self, reactor: Reactor, loop: asyncio.AbstractEventLoop) -> None:
        self._reactor = reactor
        self._loop = loop

    def post(self, function: Callable[[], None]) -> None:
        """Have `function` called, and go on."""
        self._reactor.call_later(0.0, function)
        self._reactor.wake()

    async def ask(
        self, function: Callable[[], Any], on_abandoned: Callable[[Any], object] = lambda answer: None
    ) -> Any:
        """Call `function` in the loop of the head, and return its result, or that of the `Deferred` that it returns.

        Raises the error that it raises. If the caller gives up before the call, `function` is not called; if it gives
        up afterwards, `on_abandoned(answer)` is called.
        """
        future: asyncio.Future[Any] = self._loop.create_future()

        def settle(answer: Any) -> None:
            if isinstance(answer, BaseException):
                if not future.done():
                    future.set_exception(answer)
            elif future.done():
                on_abandoned(answer)
            else:
                future.set_result(answer)

        def answered(answer: Any) -> None:
            with suppress(RuntimeError):  # the server has ended meanwhile
                self._loop.call_soon_threadsafe(settle, answer)

        def run() -> None:
            if future.cancelled():
                return
            try:
                answer = function()
            except Exception as error:
                answered(error)
                return
            if isinstance(answer, Deferred):
                answer.when_done(answered)
            else:
                answered(answer)

        self.post(run)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.done() and future.exception() is None:
                on_abandoned(future.result())  # it came, and then the caller gave up before it went on
            raise
