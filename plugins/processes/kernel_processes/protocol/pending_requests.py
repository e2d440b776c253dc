"""Keep the numbered requests of a head or an agent that wait for an answer. Used in its loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Asked = TypeVar("Asked", bound=Hashable)
"""The type of the values that identify a receiver of requests."""

Then = Callable[[Any], None]


class PendingRequests(Generic[Asked]):
    """Holds the open requests. Each `then(answer)` is called once, with None when there will be no answer.

    Numbers count from `first`: a sender that takes the place of another one begins at another number, and so never
    takes answers to that one's requests for its own.
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
        """Handle an answer; drop it if its request is not open."""
        found = self._open.pop(number, None)
        if found is not None:
            found[1](value)

    def lost(self, asked: Asked) -> None:
        """A receiver is gone: none of its requests will be answered."""
        for number in [number for number, one in self._open.items() if one[0] == asked]:
            self.answered(number, None)
