"""Who waits: one line for each shape of request, served from its front."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from kernel_scheduler_fifo.placement import Placement, placement_of
from kernel_spec.ids import LeaseId
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import LeaseRequest

OVERTAKEN_TIMES = 64
"""How often others may pass the front of a line before resources are kept for it."""
OVERTAKEN_SECONDS = 2.0
"""How long others may pass it, counted from the first time."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in a line. `number` counts arrivals, `since` is in seconds on the caller's clock."""

    request: LeaseRequest
    number: int
    since: float


@dataclass(slots=True)
class Line:
    """All waiting requests that want the same amounts in the same place, oldest first."""

    shape: Hashable
    wanted: Amounts
    placement: Placement
    waiting: OrderedDict[LeaseId, Waiting] = field(default_factory=OrderedDict)
    overtaken: int = 0
    overtaken_since: float = 0.0

    @property
    def front(self) -> Waiting:
        """The oldest request."""
        return next(iter(self.waiting.values()))

    def note_overtaken(self, by: Amounts, now: float) -> None:
        """Count that a younger request was served before the front, if both want some of the same."""
        if by.keys().isdisjoint(self.wanted):
            return
        if not self.overtaken:
            self.overtaken_since = now
        self.overtaken += 1

    def starves(self, now: float) -> bool:
        """Return whether others were served before the front too often or for too long."""
        return self.overtaken >= OVERTAKEN_TIMES or (
            self.overtaken > 0 and now - self.overtaken_since >= OVERTAKEN_SECONDS
        )


class Lines:
    """All lines. Finding, joining and leaving one costs the same however long it is."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, Line] = {}
        self._line_of: dict[LeaseId, Line] = {}
        self._arrivals = 0

    def __contains__(self, id: LeaseId) -> bool:
        return id in self._line_of

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def join(self, request: LeaseRequest, now: float) -> Line:
        """Put a request at the end of its line and return the line."""
        placement = placement_of(request.strategy)
        shape = (frozenset(request.wanted.items()), placement)
        line = self._lines.get(shape)
        if line is None:
            line = self._lines[shape] = Line(shape, request.wanted, placement)
        self._arrivals += 1
        line.waiting[request.id] = Waiting(request, self._arrivals, now)
        self._line_of[request.id] = line
        return line

    def leave(self, id: LeaseId) -> Line:
        """Take a waiting request out and return the line it was in."""
        line = self._line_of.pop(id)
        if next(iter(line.waiting)) == id:
            line.overtaken = 0
        del line.waiting[id]
        if not line.waiting:
            del self._lines[line.shape]
        return line

    def find(self, id: LeaseId) -> Line | None:
        """Return the line in which `id` waits."""
        return self._line_of.get(id)

    def oldest_first(self) -> list[Line]:
        """Return the lines, the one whose front came first in front."""
        return sorted(self._lines.values(), key=lambda line: line.front.number)
