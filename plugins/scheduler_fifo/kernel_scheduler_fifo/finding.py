"""Where the front of a queue goes: the best place that has room, and those that could make room."""

from __future__ import annotations

from itertools import islice

from kernel_scheduler_fifo.nodes import Nodes
from kernel_scheduler_fifo.queues import QueuedRequest, ShapeQueue
from kernel_scheduler_fifo.reservations import Reservations
from kernel_spec.choosing import allows
from kernel_spec.finding import places_ever, places_with_room
from kernel_spec.holdings import BundlePlace, NodePlace, Place
from kernel_spec.resources import Allocation
from kernel_spec.scheduling import LeaseRequest

PLACES_COMPARED = 64
"""The most places that are compared when a reservation seeks the one that lacks least."""


class Finder:
    """Finds places for the fronts of queues of leases, without looking at all nodes."""

    def __init__(self, nodes: Nodes, reservations: Reservations) -> None:
        self._nodes = nodes
        self._reservations = reservations

    def find(self, queue: ShapeQueue, entry: QueuedRequest) -> tuple[Place, Allocation] | None:
        """Take what the front of a queue wants in the best place that has it."""
        request = entry.request
        assert isinstance(request, LeaseRequest)
        for place in places_with_room(self._nodes, request, queue.placement):
            allocation = self._reservations.take(place, queue.wanted, entry.number)
            if allocation is not None:
                return place, allocation
        return None

    def allowed(self, queue: ShapeQueue, place: Place) -> bool:
        """Return whether leases of a queue may go to an open place that is `near` it."""
        if isinstance(place, BundlePlace):
            request = queue.front.request
            return isinstance(request, LeaseRequest) and request.bundle in (-1, place.bundle.index)
        assert isinstance(place, NodePlace)
        return allows(self._nodes, queue.placement, queue.wanted, place)

    def to_keep(self, queue: ShapeQueue) -> Place | None:
        """Return the place to keep for the front of a queue: the one that lacks least and has no other reservation."""
        request = queue.front.request
        assert isinstance(request, LeaseRequest)
        places = (
            place
            for place in places_ever(self._nodes, request, queue.placement)
            if self._reservations.at(place) is None and place.could_free(queue.wanted)
        )
        some = list(islice(places, PLACES_COMPARED))
        return min(some, key=lambda place: sum(place.pool.missing(queue.wanted).values()), default=None)
