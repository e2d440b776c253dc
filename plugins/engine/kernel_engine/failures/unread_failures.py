"""Decide which failures were never asked for, and when to report them, from events and the time alone.

A failure is identified by its data, the very bytes that arrived: results that fail together, because they are of one
call, or because one was an argument of the other, carry the same bytes. Asking for one of them counts for all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from kernel_engine.failures.failures import Failure
from kernel_spec.dataclass import dataclass

PATIENCE_SECONDS = 5.0
"""Seconds for the holder of a reference to ask for the failed result before the failure is shown."""
SHOWN_AT_ONCE = 5
"""The number of failures that are shown in full within a window; the others are counted."""
WINDOW_SECONDS = 10.0
SETTLED_KEPT = 256
"""Number of read or shown failures that are remembered, because other results may still fail with the same data."""


@dataclass(slots=True, eq=False)
class Unread:
    """Holds a failure that was not asked for. `carriers` are the ids of the objects that have it as their value.

    `is_awaited()` says whether a thread still waits for one of them, and will ask for it, however late.
    """

    failure: Failure
    task: bytes
    name: str
    failed_at: float
    carriers: set[bytes]
    is_awaited: Callable[[], bool]
    due: float


@dataclass(frozen=True, slots=True)
class Show:
    """Show a failure, with its traceback; if not `in_full`, only in listings of failures."""

    unread: Unread
    in_full: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Report the number of failures that were not shown in full."""

    count: int


Instruction = Show | LeftOut


class UnreadFailures:
    """Collects failures, and decides which to show. All times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._unread: OrderedDict[int, Unread] = OrderedDict()
        """By the identity of the data, which each holds: the first is due first."""
        self._gone: list[Unread] = []
        """Failures that can't be asked for any more."""
        self._settled: OrderedDict[int, bytes] = OrderedDict()
        self._window = 0.0
        self._shown = 0
        self._left_out = 0

    @property
    def is_busy(self) -> bool:
        """Whether `tick` may return instructions, now or later."""
        return bool(self._unread or self._gone or self._left_out)

    def failed(
        self, failure: Failure, task: bytes, name: str, carriers: Iterable[bytes], now: float,
        is_awaited: Callable[[], bool] = lambda: False,
    ) -> bool:  # fmt: skip
        """Note a failure of a task, the value of the objects `carriers`. Return whether they are watched."""
        key = id(failure[1])
        if key in self._settled:
            return False
        known = self._unread.get(key)
        if known is not None:
            known.carriers.update(carriers)
            return True
        unread = Unread(failure, task, name, now, set(carriers), is_awaited, now + PATIENCE_SECONDS)
        if not unread.carriers:
            self._settle(failure)
            self._gone.append(unread)
            return False
        self._unread[key] = unread
        return True

    def asked(self, failure: Failure) -> None:
        """Note that a failure was read."""
        self._unread.pop(id(failure[1]), None)
        self._settle(failure)

    def dropped(self, failure: Failure, carrier: bytes) -> None:
        """Note that the last reference to `carrier`, an object with this failure, is gone."""
        unread = self._unread.get(id(failure[1]))
        if unread is None:
            return
        unread.carriers.discard(carrier)
        if not unread.carriers:
            del self._unread[id(failure[1])]
            self._settle(failure)
            self._gone.append(unread)

    def tick(self, now: float) -> list[Instruction]:
        """Return what must be shown now."""
        instructions: list[Instruction] = []
        if self._left_out and now - self._window >= WINDOW_SECONDS:
            instructions.append(self._count_left_out())
        while self._unread and next(iter(self._unread.values())).due <= now:
            key, unread = self._unread.popitem(last=False)
            if unread.is_awaited():
                unread.due = now + PATIENCE_SECONDS
                self._unread[key] = unread
            else:
                self._settle(unread.failure)
                self._gone.append(unread)
        gone, self._gone = self._gone, []
        instructions += [self._show(unread, now) for unread in gone]
        return instructions

    def close(self, now: float) -> list[Instruction]:
        """Return all that is left to be shown, because nothing will be asked for any more."""
        self._gone += self._unread.values()
        self._unread.clear()
        instructions = self.tick(now)
        if self._left_out:
            instructions.append(self._count_left_out())
        return instructions

    def validate(self) -> None:
        """Raise AssertionError when something is so that never may be."""
        for key, unread in self._unread.items():
            assert key == id(unread.failure[1]) and unread.carriers, unread
            assert key not in self._settled, unread
        dues = [unread.due for unread in self._unread.values()]
        assert dues == sorted(dues), dues
        assert len(self._settled) <= SETTLED_KEPT

    def _show(self, unread: Unread, now: float) -> Show:
        if now - self._window >= WINDOW_SECONDS:
            self._window, self._shown = now, 0
        if self._shown < SHOWN_AT_ONCE:
            self._shown += 1
            return Show(unread, True)
        self._left_out += 1
        return Show(unread, False)

    def _count_left_out(self) -> LeftOut:
        count, self._left_out = self._left_out, 0
        return LeftOut(count)

    def _settle(self, failure: Failure) -> None:
        self._settled[id(failure[1])] = failure[1]
        if len(self._settled) > SETTLED_KEPT:
            self._settled.popitem(last=False)
