"""Run an event loop in a thread of its own for a concurrency group, so that a call that blocks stops no other group."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

from kernel.runtime.critical_sections import calls_user_code

_MOMENT_SECONDS = 0.1


class WritingSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Is the machine's best selector, for a loop that writes its sent messages before it waits."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__()
        self._flush = flush

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Write what is queued, wait; return what is ready for the loop."""
        self._flush()
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        return ready


class NeighbourLoop(asyncio.SelectorEventLoop):
    """Notices events of its actor's other loops: an event that is set in one loop wakes coroutines of the others.

    Python's own loop would notice only when something else wakes it.
    """

    _thread_id: int | None

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """Have `callback(*args)` called with the next turn. Any thread."""
        if self._thread_id in (None, threading.get_ident()):
            return super().call_soon(callback, *args, context=context)
        return self.call_soon_threadsafe(callback, *args, context=context)


def start_group_loop(name: str, flush: Callable[[], None]) -> asyncio.AbstractEventLoop:
    """Return a loop that runs in a new thread, and calls `flush` before each wait."""
    loop = NeighbourLoop(WritingSelector(flush))
    threading.Thread(target=_run, args=(loop,), name=f"kernel-loop-{name}", daemon=True).start()
    return loop


async def end_calls_of(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Cancel everything on another thread's loop. It has `seconds` to end; one that is blocked is left alone."""
    ended = asyncio.run_coroutine_threadsafe(cancel_all(seconds), loop)
    await asyncio.wait([asyncio.wrap_future(ended)], timeout=seconds + _MOMENT_SECONDS)


async def cancel_all(seconds: float) -> None:
    """Cancel all tasks of the running loop but the one that asks, and give them `seconds` to end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


@calls_user_code
def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
