"""Values as futures: for other threads, and for event loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.object_values import ObjectValues
from kernel.runtime.objects import PENDING, STORED, Entry
from kernel.runtime.ownership import Ownership
from kernel.runtime.process import Process


class Futures:
    """Tells others when a value is there, without a thread that waits for it."""

    def __init__(self, io: Process, ownership: Ownership, values: ObjectValues) -> None:
        self._io = io
        self._ownership = ownership
        self._values = values

    def when_ready(self, ref: ObjectRef, callback: Callable[[Entry], None]) -> None:
        """Call `callback` once when `ref` is ready, now or from the thread that learns of it."""
        entry = ref._entry
        with self._io.lock:
            if entry.state == PENDING:
                entry.when_ready(callback)
                if entry.owner is not None:
                    self._ownership.fetch(entry)
                self._io.flush_soon()
                return
        callback(entry)

    def deliver(self, ref: ObjectRef, future: concurrent.futures.Future[Any]) -> None:
        """See `Runtime.deliver`."""

        def ready(entry: Entry) -> None:
            # A value in the store is fetched by blocking, which the thread that delivers messages never does.
            if entry.state == STORED:
                threading.Thread(target=fill, args=(entry,), daemon=True).start()
            else:
                fill(entry)

        def fill(entry: Entry) -> None:
            try:
                value = self._values.load(ref._entry)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        self.when_ready(ref, ready)

    def deliver_async(self, ref: ObjectRef, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """See `Runtime.deliver_async`."""
        future: asyncio.Future[Any] = loop.create_future()
        thread = threading.get_ident()

        def fill() -> None:
            if future.done():
                return
            try:
                value = self._values.load(ref._entry)
            except (StopIteration, BaseException) as error:
                future.set_exception(error if not isinstance(error, StopIteration) else RuntimeError(repr(error)))
            else:
                future.set_result(value)

        def ready(entry: Entry) -> None:
            if threading.get_ident() == thread:
                loop.call_soon(fill)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(fill)

        self.when_ready(ref, ready)
        return future
