"""Simulated time: what happens when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Act = Callable[[Any], None]


class Agenda:
    """A clock that jumps from one happening to the next; what is due at the same moment goes in the order it was put.

    What is only in the background (ticks, failures) does not count as something to come.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.to_come = 0
        """How many happenings are ahead, without those in the background."""
        self.idle_since = 0.0
        """When the last happening that was not in the background took place."""
        self._heap: list[tuple[float, int, bool, Act, Any]] = []
        self._put = 0

    def after(self, seconds: float, act: Act, what: Any, background: bool = False) -> None:
        """Call `act(what)` in `seconds` from now."""
        self.at(self.now + seconds, act, what, background)

    def at(self, moment: float, act: Act, what: Any, background: bool = False) -> None:
        """Call `act(what)` at `moment`, in seconds since the beginning."""
        self._put += 1
        if not background:
            self.to_come += 1
        heappush(self._heap, (moment, self._put, background, act, what))

    def next_moment(self) -> float | None:
        """Return when the next thing happens; None when nothing ever does."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Go to the next happening and let it happen."""
        self.now, _, background, act, what = heappop(self._heap)
        if not background:
            self.to_come -= 1
            self.idle_since = self.now
        act(what)
