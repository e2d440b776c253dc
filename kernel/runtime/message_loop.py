"""An event loop that reads this process's messages itself, where it waits for everything else.

The loop's selector watches the reactor beside the loop's own files. What the messages start runs in the same turn of
the loop, and what that sends is written as the next turn begins: one wait for a call, instead of three.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.process import Process


class MessageSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """The machine's best selector, for a loop that also is the one to poll the messages of `io`."""

    def __init__(self, io: Process) -> None:
        super().__init__()
        self._io = io
        self._messages = self.register(io.reactor.fileno(), selectors.EVENT_READ)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Write what is queued, wait, handle the messages that came; return what is ready for the loop."""
        self._io.flush()
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        for position, (key, _) in enumerate(ready):
            if key is self._messages:
                del ready[position]
                self._io.pump.poll_now()
                break
        return ready


@calls_user_code
def run_with_messages(main: Coroutine[Any, Any, None], io: Process) -> None:
    """Run `main` to its end as `asyncio.run` does, in a loop that reads the messages of `io`."""
    loop = asyncio.SelectorEventLoop(MessageSelector(io))
    asyncio.set_event_loop(loop)
    io.pump.yield_to_loop(True)
    try:
        loop.run_until_complete(main)
    finally:
        try:
            _cancel_everything(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            io.pump.yield_to_loop(False)
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_everything(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
