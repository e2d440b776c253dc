"""Offer values as futures: for other threads, and for event loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.runtime.execution_context import Execution, current_execution
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.remote_traceback import hide_internal_frames
from kernel_spec.daemon_threads import DaemonThreads

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

DELIVERY_THREAD = "kernel-delivery"
"""The name of the threads that load values and fill futures."""

OnAwait = Callable[["asyncio.AbstractEventLoop", "asyncio.Future[Any]"], None]


class Futures:
    """Reports when a value is ready, without a thread that waits for it.

    `when_ready(entry, callback)` calls back once, now or from the thread that learns of the value; `load(entry)`
    returns it; `asked(entry)` notes that a failure has a reader; `answer_promptly()` has messages read even if no
    thread blocks. Values are loaded, and callbacks of futures called, in other threads: the thread that learns of a
    value holds the process's lock, and both may block.
    """

    def __init__(
        self,
        when_ready: Callable[[ObjectEntry, Callable[[ObjectEntry], None]], None],
        load: Callable[[ObjectEntry], Any],
        asked: Callable[[ObjectEntry], None],
        answer_promptly: Callable[[], None] = lambda: None,
    ) -> None:
        self._when_ready = when_ready
        self._load = load
        self._asked = asked
        self._answer_promptly = answer_promptly
        self._awaited: set[concurrent.futures.Future[Any]] = set()
        self._delivery_threads = DaemonThreads(DELIVERY_THREAD)
        self._awaited_in_loops = 0
        self.of_calls: dict[asyncio.Future[Any], tuple[Execution, ObjectEntry]] = {}
        """What coroutines of a worker's calls await."""
        self.on_await: OnAwait | None = None
        """Called with a loop and the future of a value that is not there yet, which something is about to await."""

    def deliver(self, ref: ObjectRef, future: concurrent.futures.Future[Any], read: bool = True) -> None:
        """See `Runtime.deliver`."""

        def fill() -> None:
            self._awaited.discard(future)
            try:
                value = self._load(ref._entry) if read else None
            except BaseException as error:
                future.set_exception(hide_internal_frames(error))
            else:
                future.set_result(value)
            if self._awaited:  # This thread has polled to read a value from the store; nobody else polls now.
                self._answer_promptly()

        def ready(entry: ObjectEntry) -> None:
            if read:
                self._asked(entry)  # At once: this process may end before a thread comes to it.
            self._delivery_threads.submit(fill)

        self._awaited.add(future)
        self._when_ready(ref._entry, ready)
        if len(self._awaited) == 1:  # Later ones travel together with the first.
            self._answer_promptly()

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """See `Runtime.deliver_async`."""
        future: asyncio.Future[Any] = loop.create_future()
        if self.on_await is not None and ref._entry.state == PENDING:
            self.on_await(loop, future)

        def fill() -> None:
            if future.done():
                return
            try:
                value = self._load(ref._entry)
            except BaseException as error:
                hide_internal_frames(error)
                future.set_exception(error if not isinstance(error, StopIteration) else RuntimeError(repr(error)))
            else:
                future.set_result(value)

        def ready(entry: ObjectEntry) -> None:
            self._awaited_in_loops -= 1
            if not future.done():
                self._asked(entry)
            self.of_calls.pop(future, None)
            call_in(loop, fill)

        self._awaited_in_loops += 1
        here = current_execution.get()
        if here.task:
            self.of_calls[future] = here, ref._entry
        self._when_ready(ref._entry, ready)
        if self._awaited_in_loops == 1:
            self._answer_promptly()
        return future


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Have `loop` call `function` soon, from any thread. A closed loop is ignored: nothing waits in it any more."""
    import asyncio  # A program without a loop need not load it.

    try:
        if asyncio._get_running_loop() is loop:
            loop.call_soon(function)
        else:
            loop.call_soon_threadsafe(function)
    except RuntimeError:  # A closed loop raises it.
        return
