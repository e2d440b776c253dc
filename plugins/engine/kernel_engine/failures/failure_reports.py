"""Show failures whose results are never asked for. The process that submitted the task reports them.

A driver shows its own failures; those of tasks that workers submitted reach it through the head, which keeps all of
them for `kernel.errors()` and `kernel events`.
"""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kernel.logs import Logger
from kernel.runtime.critical_sections import is_from_outside
from kernel.runtime.object_entry import FAILED, PENDING, ObjectEntry
from kernel.runtime.waiter import Waiter
from kernel_engine.failures.failures import Failure
from kernel_engine.failures.task_error import rebuild
from kernel_engine.failures.unread_failures import Instruction, LeftOut, Unread, UnreadFailures
from kernel_engine.messages import process_messages as op
from kernel_engine.terminal_text import harmless
from kernel_spec.errors import FaultError, SessionEndedError

Row = dict[str, Any]
"""`task` (id), `name`, `type`, `message`, `text` (with the traceback, where it is shown `in_full`), `time` (seconds
since the epoch), `in_full`. `left_out` is the number of failures that were left out."""

_TURN_SECONDS = 1.0
"""Seconds to wait for another thread that is reporting: it may itself wait for a lock that this thread holds."""

_log = Logger("kernel")


def show_text(name: str, text: str) -> None:
    """Show the text of a failure in this program."""
    lines = "\n".join(map(harmless, text.rstrip().split("\n")))
    _log.error(f"{name} failed, and nobody has asked for its result", exception=lines)


def show_left_out(count: int) -> None:
    """Say that so many were not shown."""
    _log.warning("more failures that nobody has asked for were not shown", failures=count, see="kernel.errors()")


class FailureReports:
    """Holds the failures of calls that this process made. Under the process's lock, unless a method says otherwise.

    `send(row)` reports an unread failure to the session, and `show(row)` to the user; both are called from the thread
    that calls `look` or `close`, without the lock.
    """

    def __init__(self, lock: threading.RLock, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = lock
        self._clock = clock
        self._unread = UnreadFailures()
        self._telling = threading.RLock()
        self.send: Callable[[Row], None] = lambda row: None
        self.show: Callable[[Row], None] = lambda row: None

    def note(self, task: bytes, name: str, asked_for: bool, entries: Iterable[ObjectEntry], failure: Failure) -> None:
        """Note that a call ends with `failure`, which becomes the value of `entries` now.

        `asked_for`: if it is a fault, it is that of an actor that was ended on purpose.
        """
        if failure[0] == op.CANCELLED or (failure[0] == op.SYSTEM_ERROR and _is_no_news(failure, asked_for)):
            return
        watched = [entry for entry in entries if entry.state == PENDING]
        waiters = [waiter for entry in watched for waiter in entry.waiters or () if type(waiter) is Waiter]
        awaited = partial(_any_waits, waiters)
        ids = [entry.id for entry in watched]
        if self._unread.failed(failure, task, f"{name}()", ids, self._clock(), awaited):
            for entry in watched:
                entry.more().may_go = partial(self._let_go, failure, entry.id)

    def constructor_failed(self, actor: bytes, name: str, failure: Failure) -> None:
        """Note that the constructor of an actor of this process raised; the actor's last handle carries the failure."""
        self._unread.failed(failure, actor, f"{name}.__init__()", [actor], self._clock())

    def settled(self, failure: Failure) -> None:
        """Note that `failure` is reported elsewhere."""
        self._unread.asked(failure)

    def dropped(self, failure: Failure, carrier: bytes) -> None:
        """Note that `carrier` can't be asked for any more."""
        self._unread.dropped(failure, carrier)

    def asked(self, entry: ObjectEntry) -> None:
        """Note that the failure of `entry` was read. Any thread, with the lock or without."""
        if entry.state == FAILED:
            with self._lock:
                self._unread.asked(entry.value)

    def asked_together(self, entries: Iterable[ObjectEntry]) -> None:
        """Note that several objects were asked for, and the failure of one of them was raised. Any thread."""
        with self._lock:
            for entry in entries:
                if entry.state == PENDING:
                    entry.when_ready(self.asked)
                else:
                    self.asked(entry)

    def look(self) -> None:
        """Show what is due. Now and then, not under the lock."""
        if self._unread.is_busy:
            self._tell(self._unread.tick)

    def close(self) -> None:
        """Show all that is left, because this process leaves. Not under the lock."""
        if self._unread.is_busy:
            self._tell(self._unread.close)

    def _tell(self, decide: Callable[[float], list[Instruction]]) -> None:
        """Follow the instructions of `decide(now)`, after those that another thread is following."""
        free = self._telling.acquire(timeout=_TURN_SECONDS)
        try:
            with self._lock:
                instructions = decide(self._clock())
            self._follow(instructions)
        finally:
            if free:
                self._telling.release()

    def _follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, LeftOut):
                row: Row = {"left_out": instruction.count}
            else:
                row = _row(instruction.unread, instruction.in_full)
                row["time"] = time.time() - (self._clock() - instruction.unread.failed_at)
            self.show(row)
            self.send(row)

    def _let_go(self, failure: Failure, carrier: bytes) -> bool:
        self._unread.dropped(failure, carrier)
        return True


def show_row(row: Row) -> None:
    """Show a failure, or how many were not, in this program."""
    if "left_out" in row:
        show_left_out(row["left_out"])
    elif row["in_full"]:
        show_text(row["name"], row["text"])


def _any_waits(waiters: list[Waiter]) -> bool:
    return any(waiter.remaining > 0 for waiter in waiters)


def _is_no_news(failure: Failure, asked_for: bool) -> bool:
    """Return whether the user knows of a failure already: the session ended, or an actor was ended on purpose."""
    return isinstance(pickle.loads(failure[1]), FaultError if asked_for else SessionEndedError)


def _row(unread: Unread, in_full: bool) -> Row:
    kind, data = unread.failure
    row = {"task": bytes(unread.task), "name": unread.name, "in_full": in_full}
    if kind == op.USER_ERROR:
        record = pickle.loads(data)  # These are plain values: the user's exception stays pickled.
        row |= {"type": record["type"], "message": record["message"]}
    else:
        error = pickle.loads(data)
        row |= {"type": type(error).__qualname__, "message": str(error)}
    row["text"] = _text(kind, data) if in_full else f"{row['type']}: {row['message']}"
    return row


def _text(kind: int, data: bytes) -> str:
    try:
        error = rebuild(data) if kind == op.USER_ERROR else pickle.loads(data)
        return "".join(traceback.format_exception(error)).rstrip()
    except Exception as trouble:  # Unpickling or showing an exception runs the user's code.
        if is_from_outside(trouble):
            raise
        return f"(its traceback could not be put together: {type(trouble).__name__}: {trouble})"
