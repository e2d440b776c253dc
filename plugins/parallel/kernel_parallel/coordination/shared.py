"""Counters, events and barriers that any process can use by their name."""

from __future__ import annotations

from typing import Any

from kernel_parallel.coordination.base import Named, check_timeout
from kernel_parallel.coordination.errors import BrokenBarrierError, CoordinationError


class Counter(Named):
    """A number that any process can change, each change as a whole. `start` is what it is before the first.

    The methods with `_async` are for coroutines.
    """

    kind = "counter"

    def __init__(self, name: str, start: int = 0) -> None:
        super().__init__(name)
        self.start = start

    def add(self, amount: int = 1) -> int:
        """Add to it, and return what it is then: `next(ids)` for free when each wants a number of its own."""
        value: int = self._ask("add", self._key, self.start, amount)
        return value

    async def add_async(self, amount: int = 1) -> int:
        """Do what `add` does in a coroutine."""
        value: int = await self._call("add", self._key, self.start, amount)
        return value

    def get(self) -> int:
        """Return what it is."""
        return self.add(0)

    async def get_async(self) -> int:
        """Do what `get` does in a coroutine."""
        return await self.add_async(0)

    def set(self, value: int) -> int:
        """Set it, and return what it was."""
        before: int = self._ask("exchange", self._key, self.start, None, value)[1]
        return before

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Set it if it is what is expected; return whether it was."""
        done: bool = self._ask("exchange", self._key, self.start, expected, value)[0]
        return done

    def delete(self) -> None:
        """Forget it: the next use begins at `start`."""
        self._ask("delete", self.kind, self._key)


class Event(Named):
    """A flag that processes can wait for, as `threading.Event`. The methods with `_async` are for coroutines."""

    kind = "event"

    def set(self) -> None:
        """Set it: all who wait go on."""
        self._ask("set_event", self._key, True)

    def clear(self) -> None:
        """Take it back: those who come now wait."""
        self._ask("set_event", self._key, False)

    def is_set(self) -> bool:
        """Return whether it is set."""
        found: bool = self._ask("event_is_set", self._key)
        return found

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it was within `timeout` seconds (None: no limit)."""
        found: bool = self._ask("wait_for_event", self._key, check_timeout(timeout))
        return found

    async def set_async(self) -> None:
        """Do what `set` does in a coroutine."""
        await self._call("set_event", self._key, True)

    async def wait_async(self, timeout: float | None = None) -> bool:
        """Do what `wait` does in a coroutine."""
        found: bool = await self._call("wait_for_event", self._key, check_timeout(timeout))
        return found

    def delete(self) -> None:
        """Forget it. Do this when nobody waits for it any more."""
        self._ask("delete", self.kind, self._key)


class Barrier(Named):
    """A point that `parties` processes pass together, again and again, as `threading.Barrier`.

    When one of them gives up (its timeout), all others get BrokenBarrierError, until somebody calls `reset`.
    """

    kind = "barrier"

    def __init__(self, name: str, parties: int) -> None:
        super().__init__(name)
        if isinstance(parties, bool) or not isinstance(parties, int) or parties < 1:
            raise CoordinationError(f"{self._key} needs at least one party, not {parties!r}")
        self.parties = parties

    def wait(self, timeout: float | None = None) -> int:
        """Wait for all others; return in which place this one came, from 0 on.

        Raises BrokenBarrierError when not all came within `timeout` seconds, or somebody else gave up.
        """
        return self._passed(self._ask("pass_barrier", self._key, self.parties, check_timeout(timeout)))

    async def wait_async(self, timeout: float | None = None) -> int:
        """Do what `wait` does in a coroutine."""
        return self._passed(await self._call("pass_barrier", self._key, self.parties, check_timeout(timeout)))

    def reset(self) -> None:
        """Make it whole again; those who wait get BrokenBarrierError."""
        self._ask("break_barrier", self._key, self.parties, f"{self._key} was reset", False)

    def abort(self) -> None:
        """Break it: all who wait, and who come, get BrokenBarrierError until it is reset."""
        self._ask("break_barrier", self._key, self.parties, f"{self._key} was aborted", True)

    @property
    def n_waiting(self) -> int:
        """How many wait."""
        count: int = self._ask("barrier_state", self._key)[0]
        return count

    @property
    def broken(self) -> bool:
        """Whether it is broken."""
        return bool(self._ask("barrier_state", self._key)[1])

    def delete(self) -> None:
        """Forget it. Do this when nobody waits at it any more."""
        self._ask("delete", self.kind, self._key)

    def _passed(self, answer: Any) -> int:
        place, reason = answer
        if reason:
            raise BrokenBarrierError(f"{reason}; {self!r}.reset() makes it whole again, when all are ready for it")
        return int(place)
