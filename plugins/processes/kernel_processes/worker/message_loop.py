"""An event loop that reads this process's messages itself, where it waits for everything else.

The loop's selector watches the reactor beside the loop's own files. Work that messages start runs in the same turn of
the loop, and the messages that it sends are written as the next turn begins: one wait for a call, instead of three.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel_processes.runtime.process import Process
from kernel_processes.worker.group_loop import cancel_all

_CANCELLING_SECONDS = 1.0
"""Seconds for cancelled coroutines to clean up."""


class MessageSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Is the machine's best selector, for a loop that also polls the messages of `io`."""

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
def run_with_messages(
    main: Coroutine[Any, Any, None], io: Process, kind: type[asyncio.SelectorEventLoop] = asyncio.SelectorEventLoop
) -> None:
    """Run `main` to its end in a loop that reads the messages of `io`; what else runs on it is cancelled then.

    Threads of the loop are not waited for: the process ends next.
    """
    loop = kind(MessageSelector(io))
    asyncio.set_event_loop(loop)
    io.pump.yield_to_loop(True)
    try:
        loop.run_until_complete(main)
    finally:
        try:
            loop.run_until_complete(cancel_all(_CANCELLING_SECONDS))
            closing = loop.create_task(loop.shutdown_asyncgens())
            loop.run_until_complete(asyncio.wait([closing], timeout=_CANCELLING_SECONDS))
        finally:
            io.pump.yield_to_loop(False)
            asyncio.set_event_loop(None)
            loop.close()
