"""Who waits: one line for each shape of request, served from its front."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import field
from itertools import chain

from kernel_spec.dataclass import dataclass
from kernel_spec.holdings import BundlePlace, Group, Place
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.packing import total_of
from kernel_spec.placement import DEFAULT, Placement, placement_of
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest

OVERTAKEN_TIMES = 64
"""How often others may pass the front of a line before resources are kept for it."""
OVERTAKEN_SECONDS = 2.0
"""How long others may pass it, counted from the first time."""

WaitingId = LeaseId | GroupId


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in a line. `number` counts arrivals, `since` is in seconds on the caller's clock."""

    request: LeaseRequest | GroupRequest
    number: int
    since: float


@dataclass(slots=True, eq=False)
class Line:
    """All waiting requests that want the same amounts in the same place, oldest first.

    `gang`: these are placement groups, and `wanted` is the sum of their bundles; else leases, in `group` if one is
    set. `attempts` counts how often something was kept for the front in vain, `rests_until` when it may be again.
    """

    shape: Hashable
    wanted: Amounts
    placement: Placement = DEFAULT
    group: GroupId | None = None
    gang: bool = False
    waiting: OrderedDict[WaitingId, Waiting] = field(default_factory=OrderedDict)
    overtaken: int = 0
    overtaken_since: float = 0.0
    attempts: int = 0
    rests_until: float = 0.0

    @property
    def front(self) -> Waiting:
        """The oldest request."""
        return next(iter(self.waiting.values()))

    def note_overtaken(self, by: Amounts, now: float) -> bool:
        """Count that a younger request was served before the front, if both want some of the same.

        Returns whether that was the one time too many.
        """
        if by.keys().isdisjoint(self.wanted):
            return False
        if not self.overtaken:
            self.overtaken_since = now
        self.overtaken += 1
        return self.overtaken == OVERTAKEN_TIMES

    def starves(self, now: float) -> bool:
        """Return whether others were served before the front too often or for too long."""
        return self.overtaken >= OVERTAKEN_TIMES or (
            self.overtaken > 0 and now - self.overtaken_since >= OVERTAKEN_SECONDS
        )


class Lines:
    """All lines. Finding, joining and leaving one costs the same however long it is.

    They are kept by what can be news to them: any node (`anywhere`), one node (`pinned`), a group's bundles
    (`inside`); `gangs` are those of groups.
    """

    def __init__(self) -> None:
        self.anywhere: dict[Hashable, Line] = {}
        self.pinned: dict[NodeId, dict[Hashable, Line]] = {}
        self.inside: dict[GroupId, dict[Hashable, Line]] = {}
        self.gangs: dict[Hashable, Line] = {}
        self._line_of: dict[WaitingId, Line] = {}
        self._arrivals = 0

    def __contains__(self, id: WaitingId) -> bool:
        return id in self._line_of

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[Line]:
        pinned = chain.from_iterable(lines.values() for lines in self.pinned.values())
        inside = chain.from_iterable(lines.values() for lines in self.inside.values())
        return chain(self.anywhere.values(), pinned, inside, self.gangs.values())

    def arrive(self) -> int:
        """Return the number of the next arrival."""
        self._arrivals += 1
        return self._arrivals

    def join(self, request: LeaseRequest, now: float) -> Line:
        """Put a request for a lease at the end of its line and return the line."""
        placement = placement_of(request.strategy) if request.group is None else DEFAULT
        shape = frozenset(request.wanted.items()), placement, request.bundle
        home = self._home(request.group, placement)
        line = home.get(shape)
        if line is None:
            line = home[shape] = Line(shape, request.wanted, placement, request.group)
        return self._join(line, Waiting(request, self.arrive(), now))

    def join_gang(self, group: Group, number: int, now: float, again: bool) -> Line:
        """Put a group (or, `again`, what it has lost) in line as the arrival `number` and return the line."""
        waiting, request = group.waiting(), group.request
        shape: Hashable = request.id
        if not again:
            shape = request.strategy, tuple(frozenset(wanted.items()) for wanted in waiting.values())
        line = self.gangs.get(shape)
        if line is None:
            line = self.gangs[shape] = Line(shape, total_of(waiting.values()), gang=True)
        return self._join(line, Waiting(request, number, now))

    def leave(self, id: WaitingId) -> Line:
        """Take a waiting request out and return the line it was in."""
        line = self._line_of.pop(id)
        if next(iter(line.waiting)) == id:
            line.overtaken = line.attempts = 0
            line.rests_until = 0.0
        del line.waiting[id]
        if not line.waiting:
            self._drop(line)
        return line

    def find(self, id: WaitingId) -> Line | None:
        """Return the line in which `id` waits."""
        return self._line_of.get(id)

    def near(self, place: Place) -> Iterator[Line]:
        """Yield the lines to which a change in `place` can be news, gangs included."""
        if isinstance(place, BundlePlace):
            return iter(self.inside.get(place.group, {}).values())
        pinned = self.pinned.get(place.node)
        if pinned is None and not self.gangs:
            return iter(self.anywhere.values())
        return chain(self.anywhere.values(), (pinned or {}).values(), self.gangs.values())

    def soft(self, node: NodeId) -> list[Line]:
        """Return the lines that would rather go to `node`, and to any other if that can't be."""
        return [line for line in self.anywhere.values() if line.placement.node == node]

    def oldest_first(self) -> list[Line]:
        """Return the lines, the one whose front came first in front."""
        return sorted(self, key=lambda line: line.front.number)

    def _home(self, group: GroupId | None, placement: Placement) -> dict[Hashable, Line]:
        if group is not None:
            return self.inside.setdefault(group, {})
        if placement.node is not None and not placement.soft:
            return self.pinned.setdefault(placement.node, {})
        return self.anywhere

    def _join(self, line: Line, entry: Waiting) -> Line:
        line.waiting[entry.request.id] = entry
        self._line_of[entry.request.id] = line
        return line

    def _drop(self, line: Line) -> None:
        if line.gang:
            del self.gangs[line.shape]
            return
        home = self._home(line.group, line.placement)
        del home[line.shape]
        if home or home is self.anywhere:
            return
        if line.group is not None:
            del self.inside[line.group]
        elif line.placement.node is not None:
            del self.pinned[line.placement.node]
