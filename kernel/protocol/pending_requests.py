"""Questions that wait for an answer, numbered: asked by a head or by an agent, from its loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Asked = TypeVar("Asked", bound=Hashable)
"""What names who was asked."""

Then = Callable[[Any], None]


class PendingRequests(Generic[Asked]):
    """Who was asked what. Each `then(answer)` is called once, with None when there will be no answer.

    Numbers count from `first`: who takes the place of another asker begins elsewhere, and hears no answers to that one.
    """

    def __init__(self, first: int = 0) -> None:
        self._open: dict[int, tuple[Asked, Then]] = {}
        self._last = first

    def begin(self, asked: Asked, then: Then) -> int:
        """Return the number of a new question to `asked`."""
        self._last += 1
        self._open[self._last] = (asked, then)
        return self._last

    def answered(self, number: int, value: Any) -> None:
        """An answer has come; one that nobody waits for is dropped."""
        found = self._open.pop(number, None)
        if found is not None:
            found[1](value)

    def lost(self, asked: Asked) -> None:
        """Who was asked is gone: nothing of what was asked of it will be answered."""
        for number in [number for number, one in self._open.items() if one[0] == asked]:
            self.answered(number, None)
