"""Reservations: resources freed in some places are kept for requests that others have passed too often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernel_scheduler_fifo.queues import ShapeQueue, WaitingId
from kernel_spec.dataclass import dataclass
from kernel_spec.holdings import Place
from kernel_spec.packing import total_of
from kernel_spec.resources import Allocation, Amounts

RESERVATION_SECONDS = 30.0
"""Seconds for which resources are first kept for a request; the time doubles with each further reservation."""
MOST_DOUBLINGS = 7
"""The most times that the period doubles: to an hour, roughly."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Resources freed in some places are kept for the front of `queue`, the request `id`, until `until` (seconds).

    `wants` says which amounts, place by place: one for a lease, one for each bundle of a group.
    """

    queue: ShapeQueue
    id: WaitingId
    number: int
    until: float
    wants: Mapping[Place, Sequence[Amounts]]

    def is_hopeless(self, place: Place) -> bool:
        """Return whether a place will never have what is kept there, as far as can be seen."""
        wants = self.wants[place]
        if not all(place.could_free(wanted) for wanted in wants):
            return True
        total, stuck = place.pool.total, place.stuck
        return any(total.get(name, 0) - stuck.get(name, 0) < units for name, units in total_of(wants).items())


class Reservations:
    """All of them: at most one for a request, and at most one in a place."""

    def __init__(self) -> None:
        self._at: dict[Place, Reservation] = {}
        self._for: dict[WaitingId, Reservation] = {}

    def __bool__(self) -> bool:
        return bool(self._for)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(list(self._for.values()))

    def at(self, place: Place) -> Reservation | None:
        """Return for whom a place is kept."""
        return self._at.get(place)

    def of(self, id: WaitingId) -> Reservation | None:
        """Return what is kept for a request."""
        return self._for.get(id)

    def keep(self, queue: ShapeQueue, wants: Mapping[Place, Sequence[Amounts]], now: float) -> None:
        """Keep places, none of which is kept for anybody yet, for the front of a queue."""
        seconds = RESERVATION_SECONDS * 2 ** min(queue.attempts, MOST_DOUBLINGS)
        front = queue.front
        kept = self._for[front.request.id] = Reservation(queue, front.request.id, front.number, now + seconds, wants)
        self._at.update(dict.fromkeys(wants, kept))

    def end(self, kept: Reservation) -> list[Place]:
        """End a reservation and return its places, where others may go now."""
        del self._for[kept.id]
        for place in kept.wants:
            del self._at[place]
        return list(kept.wants)

    def take(self, place: Place, wanted: Amounts, number: int) -> Allocation | None:
        """Take `wanted` for the arrival `number`, unless it is not there or kept for an older request."""
        kept = self._at.get(place) if self._at else None
        if kept is not None and number > kept.number and not _leaves(kept, place, wanted):
            return None
        return place.pool.acquire(wanted)


def _leaves(kept: Reservation, place: Place, wanted: Amounts) -> bool:
    """Return whether enough is left of what is kept when `wanted` is taken."""
    pool = place.pool
    for name, units in total_of(kept.wants[place]).items():
        mine = wanted.get(name, 0)
        # A share of a device could break up the whole one that is waited for, so no arithmetic there.
        if mine and (name in pool.device_resources or pool.available.get(name, 0) - mine < units):
            return False
    return True
