"""The order in which the answers of trials are processed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kernel_tune.execution.processes import Arrival


class AnswerOrder:
    """Passes answers on: as they come, or with `in_turn` in the order in which the processes were asked.

    In turn, a slow trial makes others wait, but decisions do not depend on how fast each trial is.
    """

    def __init__(self, in_turn: bool) -> None:
        self._in_turn = in_turn
        self._early: dict[str, Arrival] = {}
        """Answers that came before their turn, by trial."""

    def let_through(self, found: Iterable[Arrival], outstanding: Mapping[str, None]) -> Iterator[Arrival]:
        """Yield the answers that may be processed now, and keep the others.

        `outstanding` are the ids of trials whose process owes an answer, in the order in which they were asked. It may
        change while the caller processes an answer.
        """
        if not self._in_turn:
            yield from found
            return
        for arrival in found:
            self._early[arrival[0]] = arrival
        while (first := next(iter(outstanding), "")) in self._early:
            yield self._early.pop(first)

    def awaited(self, outstanding: Mapping[str, None]) -> set[str]:
        """Return the trials that were asked and have not answered."""
        return set(outstanding) - set(self._early)
