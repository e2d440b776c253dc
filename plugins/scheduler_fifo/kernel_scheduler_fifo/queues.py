"""Waiting requests: one queue for each shape, served from its front."""

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
"""How often others may pass the front of a queue before resources are kept for it."""
OVERTAKEN_SECONDS = 2.0
"""Seconds for which others may pass a request, counted from the first time."""

WaitingId = LeaseId | GroupId


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request in a queue. `number` counts arrivals, `since` is in seconds on the caller's clock."""

    request: LeaseRequest | GroupRequest
    number: int
    since: float


@dataclass(slots=True, eq=False)
class ShapeQueue:
    """All waiting requests that want the same amounts in the same place, oldest first.

    `of_groups`: these are placement groups, and `wanted` is the sum of their bundles; else leases, in `group` if one is
    set. `attempts` counts how often something was kept for the front in vain, `rests_until` when it may be again.
    """

    shape: Hashable
    wanted: Amounts
    placement: Placement = DEFAULT
    group: GroupId | None = None
    of_groups: bool = False
    waiting: OrderedDict[WaitingId, QueuedRequest] = field(default_factory=OrderedDict)
    overtaken: int = 0
    overtaken_since: float = 0.0
    attempts: int = 0
    rests_until: float = 0.0

    @property
    def front(self) -> QueuedRequest:
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


class ShapeQueues:
    """All queues. Finding, joining and leaving one costs the same however long it is.

    They are kept by what can be news to them: any node (`anywhere`), one node (`pinned`), a group's bundles
    (`inside`); `group_queues` are those of groups.
    """

    def __init__(self) -> None:
        self.anywhere: dict[Hashable, ShapeQueue] = {}
        self.pinned: dict[NodeId, dict[Hashable, ShapeQueue]] = {}
        self.inside: dict[GroupId, dict[Hashable, ShapeQueue]] = {}
        self.group_queues: dict[Hashable, ShapeQueue] = {}
        self._queue_of: dict[WaitingId, ShapeQueue] = {}
        self._arrivals = 0

    def __contains__(self, id: WaitingId) -> bool:
        return id in self._queue_of

    def __len__(self) -> int:
        return len(self._queue_of)

    def __iter__(self) -> Iterator[ShapeQueue]:
        pinned = chain.from_iterable(queues.values() for queues in self.pinned.values())
        inside = chain.from_iterable(queues.values() for queues in self.inside.values())
        return chain(self.anywhere.values(), pinned, inside, self.group_queues.values())

    def arrive(self) -> int:
        """Return the number of the next arrival."""
        self._arrivals += 1
        return self._arrivals

    def join(self, request: LeaseRequest, now: float) -> ShapeQueue:
        """Put a request for a lease at the end of its queue and return the queue."""
        placement = placement_of(request.strategy) if request.group is None else DEFAULT
        shape = frozenset(request.wanted.items()), placement, request.bundle
        home = self._home(request.group, placement)
        queue = home.get(shape)
        if queue is None:
            queue = home[shape] = ShapeQueue(shape, request.wanted, placement, request.group)
        return self._join(queue, QueuedRequest(request, self.arrive(), now))

    def join_group(self, group: Group, number: int, now: float, again: bool) -> ShapeQueue:
        """Put a group (or, `again`, what it has lost) in a queue as the arrival `number` and return the queue."""
        waiting, request = group.waiting(), group.request
        shape: Hashable = request.id
        if not again:
            shape = request.strategy, tuple(frozenset(wanted.items()) for wanted in waiting.values())
        queue = self.group_queues.get(shape)
        if queue is None:
            queue = self.group_queues[shape] = ShapeQueue(shape, total_of(waiting.values()), of_groups=True)
        return self._join(queue, QueuedRequest(request, number, now))

    def leave(self, id: WaitingId) -> ShapeQueue:
        """Take a waiting request out and return the queue it was in."""
        queue = self._queue_of.pop(id)
        if next(iter(queue.waiting)) == id:
            queue.overtaken = queue.attempts = 0
            queue.rests_until = 0.0
        del queue.waiting[id]
        if not queue.waiting:
            self._drop(queue)
        return queue

    def find(self, id: WaitingId) -> ShapeQueue | None:
        """Return the queue in which `id` waits."""
        return self._queue_of.get(id)

    def near(self, place: Place) -> Iterator[ShapeQueue]:
        """Yield the queues to which a change in `place` can be news, those of groups included."""
        if isinstance(place, BundlePlace):
            return iter(self.inside.get(place.group, {}).values())
        pinned = self.pinned.get(place.node)
        if pinned is None and not self.group_queues:
            return iter(self.anywhere.values())
        return chain(self.anywhere.values(), (pinned or {}).values(), self.group_queues.values())

    def soft(self, node: NodeId) -> list[ShapeQueue]:
        """Return the queues that would rather go to `node`, and to any other if that can't be."""
        return [queue for queue in self.anywhere.values() if queue.placement.node == node]

    def oldest_first(self) -> list[ShapeQueue]:
        """Return the queues, the one whose front came first in front."""
        return sorted(self, key=lambda queue: queue.front.number)

    def _home(self, group: GroupId | None, placement: Placement) -> dict[Hashable, ShapeQueue]:
        if group is not None:
            return self.inside.setdefault(group, {})
        if placement.node is not None and not placement.soft:
            return self.pinned.setdefault(placement.node, {})
        return self.anywhere

    def _join(self, queue: ShapeQueue, entry: QueuedRequest) -> ShapeQueue:
        queue.waiting[entry.request.id] = entry
        self._queue_of[entry.request.id] = queue
        return queue

    def _drop(self, queue: ShapeQueue) -> None:
        if queue.of_groups:
            del self.group_queues[queue.shape]
            return
        home = self._home(queue.group, queue.placement)
        del home[queue.shape]
        if home or home is self.anywhere:
            return
        if queue.group is not None:
            del self.inside[queue.group]
        elif queue.placement.node is not None:
            del self.pinned[queue.placement.node]
