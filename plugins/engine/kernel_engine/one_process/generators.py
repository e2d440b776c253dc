"""Run generators in one process: they advance only when they are consumed, so that an endless one does no harm.

A generator runs in the calling thread until it is a little ahead of its consumer, and is put aside there. It goes on
when its consumer needs another item or its end, or when another call needs its actor.
In a thread of its own (`in_thread`) it runs freely and waits for its consumer only if `stream_ahead` is set.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.definitions import DYNAMIC
from kernel.runtime.execution_context import Execution
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.one_process.place import CallPlace
from kernel_engine.one_process.transport import InProcessChannel, InProcessTransport
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_spec.dataclass import dataclass

AHEAD = 64
"""Number of items by which a generator without `stream_ahead` may be ahead before it is put aside."""


@dataclass(slots=True, eq=False)
class GeneratorRun:
    """Holds one generator task between its items. `on_end(error)` is called once, outside of the lock.

    `in_thread`: the thread that has begun it makes all of its items.
    """

    task: Task
    name: str
    items: Iterator[Any]
    runner: CallRunner
    channel: InProcessChannel
    place: CallPlace
    on_end: Callable[[BaseException | None], None]
    in_thread: bool = False
    index: int = 0
    closed: bool = False
    ended: bool = False
    aside: bool = False
    stepping: threading.Lock = field(default_factory=threading.Lock)
    waiter: Waiter | None = None

    @property
    def limit(self) -> int:
        """The number of items by which it may be ahead, as its definition says (0: no limit)."""
        return self.task.definition.backpressure

    @property
    def ahead(self) -> int:
        """The number of items by which it is ahead of its consumer."""
        stream = self.task.stream
        return self.index - stream.taken if stream is not None else 0

    def may_go_on(self, ahead: int) -> bool:
        """Return whether it is less than `ahead` items ahead of its consumer (0: no limit)."""
        return not ahead or self.ahead < ahead


class Generators:
    """Holds the generators that have begun and not ended.

    An engine that runs generators in the threads of their callers sets two functions: `later(function)` calls one
    outside of the lock, `when_aside(place, aside)` is told, under the lock, when a generator is put aside or goes on.
    """

    def __init__(self, transport: InProcessTransport) -> None:
        self._transport = transport
        self.later: Callable[[Callable[[], None]], None] = lambda function: function()
        self.when_aside: Callable[[Any, bool], None] = lambda place, aside: None
        self.runs: dict[bytes, GeneratorRun] = {}
        self._callbacks: dict[bytes, Callable[[], None]] = {}
        transport.handlers[op.STREAM_TAKEN] = self._on_taken

    def begin(self, run: GeneratorRun, value: Any) -> None:
        """Take a new generator as far as it may go now."""
        run.items = iterator_of(value, run.name, run.task.definition.returns)
        self.runs[run.task.id] = run
        run.closed = run.task.cancelled  # It may have been cancelled before it was known here.
        if run.task.definition.returns == DYNAMIC:
            self.advance(run, 0)
        elif run.in_thread:
            while not run.ended:
                self.advance(run, 0 if run.closed else run.limit)
                self._await_consumer(run)
        else:
            self.advance(run, run.limit or AHEAD)

    def advance(self, run: GeneratorRun, ahead: int) -> bool:
        """Take items until it is `ahead` of its consumer (0: to the end); return whether it moved."""
        if run.ended or not run.may_go_on(ahead) or not run.stepping.acquire(blocking=False):
            return False
        try:
            error: BaseException | None = None
            self._put_aside(run, False)
            with run.place.occupied(Execution(run.task.id, run.name, run.task.attempt)):
                try:
                    while not run.closed and run.may_go_on(ahead):
                        if not self._step(run):
                            break
                    else:
                        if not run.closed:
                            self._put_aside(run, True)
                            return True
                        _close(run.items)
                    run.runner.send_end(run.channel, run.task.id)  # type: ignore[arg-type]
                except BaseException as raised:
                    error = raised
            self._end(run, error)
        finally:
            run.stepping.release()
        return True

    def close(self, task: bytes) -> None:
        """End a generator that has lost its consumer."""
        run = self.runs.get(task)
        if run is not None:
            self._close(run)

    def end_all(self) -> None:
        """Tell all consumers that nothing more comes, and forget the generators. Under the lock."""
        for run in list(self.runs.values()):
            if run.task.stream is not None:
                run.task.stream.finish()
        self.runs.clear()

    def wanted(self, task: bytes) -> None:
        """Continue a generator that was put aside, since its consumer has no item left to take."""
        run = self.runs.get(task)
        if run is not None:
            self.advance(run, run.limit or AHEAD)

    def in_the_way_of(self, entry: ObjectEntry) -> list[GeneratorRun]:
        """Return the generators put aside for whose end `entry` waits, and that may go on without a consumer."""
        found: list[GeneratorRun] = []
        seen: set[bytes] = set()
        waiting = [entry] if self.runs else []
        while waiting:
            entry = waiting.pop()
            task: Task | None = entry.task
            if task is None or entry.state != PENDING or task.id in seen:
                continue
            seen.add(task.id)
            ids = [task.id, *getattr(task.place, "running", ())]
            found += [run for id in ids if (run := self.runs.get(id)) is not None and not run.limit]
            waiting += [argument for _, argument in task.slots or ()]
        return found

    def _close(self, run: GeneratorRun) -> None:
        run.closed = True
        waiter, run.waiter = run.waiter, None
        if waiter is not None:
            waiter.complete()
        if not run.in_thread:
            self.advance(run, 0)

    def _step(self, run: GeneratorRun) -> bool:
        try:
            item = _next(run.items)
        except StopIteration:
            return False
        run.index += 1
        run.runner.send_item(run.channel, run.task.id, run.index, item, run.name)  # type: ignore[arg-type]
        return True

    def _put_aside(self, run: GeneratorRun, aside: bool) -> None:
        """Lend the CPU of a generator whose consumer asks for nothing, or take it back."""
        if run.aside != aside:
            run.aside = aside
            with self._transport.lock:
                self.when_aside(run.place, aside)

    def _end(self, run: GeneratorRun, error: BaseException | None) -> None:
        run.ended = True
        self.runs.pop(run.task.id, None)
        run.on_end(error)

    def _await_consumer(self, run: GeneratorRun) -> None:
        waiter = Waiter(1)
        with self._transport.lock:
            if run.ended or run.closed or run.may_go_on(run.limit):
                return
            run.waiter = waiter
        self._transport.pump.wait(waiter)

    def when_taken(self, task: bytes, callback: Callable[[], None]) -> None:
        """Call `callback` once when the consumer of a generator has taken items."""
        self._callbacks[task] = callback

    def _on_taken(self, channel: Any, message: Any) -> None:
        callback = self._callbacks.pop(message[1], None)
        if callback is not None:
            callback()
        run = self.runs.get(message[1])
        if run is not None:
            waiter, run.waiter = run.waiter, None
            if waiter is not None:
                waiter.complete()
            if message[2] < 0:
                run.closed = True
                self.later(lambda: self._close(run))


def iterator_of(value: Any, name: str, returns: int) -> Iterator[Any]:
    """Return the iterator of what a generator function returned. Raises TypeError if that can't be iterated."""
    if not hasattr(value, "__next__") and not hasattr(value, "__iter__"):
        raise TypeError(
            f"{name}() has num_returns='{'dynamic' if returns == DYNAMIC else 'streaming'}' and must return "
            f"a generator, but returned a {type(value).__name__}"
        )
    return iter(value)


@calls_user_code
def _next(items: Iterator[Any]) -> Any:
    return next(items)


@calls_user_code
def _close(items: Iterator[Any]) -> None:
    if inspect.isgenerator(items):
        items.close()
