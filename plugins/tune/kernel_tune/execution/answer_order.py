"""In which order the answers of trials are heard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kernel_tune.execution.processes import Arrival


class AnswerOrder:
    """Lets answers through: as they come, or `in_turn`, in the order in which trials were asked.

    A trial that was asked first and is slow makes the others wait then. What is decided no longer depends on how
    quick each of them is.
    """

    def __init__(self, in_turn: bool) -> None:
        self._in_turn = in_turn
        self._early: dict[str, Arrival] = {}
        """Answers that came before their turn, by trial."""

    def let_through(self, found: Iterable[Arrival], outstanding: Mapping[str, None]) -> Iterator[Arrival]:
        """Yield the answers that may be heard now; the others wait here.

        `outstanding` are the trials that were asked, in their order. Who hears an answer may change them meanwhile.
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
