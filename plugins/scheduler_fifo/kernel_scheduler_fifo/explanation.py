"""Why a request waits, with its place in a queue."""

from __future__ import annotations

from kernel_scheduler_fifo.queues import ShapeQueue, ShapeQueues
from kernel_scheduler_fifo.reservations import Reservation, Reservations
from kernel_spec.choosing import bundles_for, places_for
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.reasons import best_place, explain, name_of
from kernel_spec.resources import describe
from kernel_spec.scheduling import GroupRequest, LeaseRequest, Reason


def explain_waiting(
    id: LeaseId | GroupId, now: float, queues: ShapeQueues, ledger: Ledger, reservations: Reservations
) -> Reason:
    """Say why the request `id` waits, or what it has."""
    queue = queues.find(id)
    if queue is None:
        return explain(ledger, id)
    request = queue.waiting[id].request
    reason = _reason(ledger, request)
    if reason.code == "infeasible":
        return reason
    front = queue.front
    if front.request.id == id:
        kept = _kept_for_others(queue, ledger, reservations)
        return _behind_kept(kept) if kept is not None else reason
    place = list(queue.waiting).index(id) + 1
    what = "placement groups like it" if queue.of_groups else describe(queue.wanted)
    return Reason(
        "behind",
        f"it is number {place} in line for {what}, first come, first served; the first in line, "
        f"{_name(front.request)}, has waited {now - front.since:.1f} s: {_reason(ledger, front.request).text}",
    )


def _reason(ledger: Ledger, request: LeaseRequest | GroupRequest) -> Reason:
    if isinstance(request, LeaseRequest):
        return explain(ledger, request.id, request)
    return explain(ledger, request.id)


def _kept_for_others(queue: ShapeQueue, ledger: Ledger, reservations: Reservations) -> Reservation | None:
    """Return the reservation that keeps the front of a queue of leases from a place that has room."""
    request = queue.front.request
    if not reservations or not isinstance(request, LeaseRequest):
        return None
    places = bundles_for(ledger, request) if queue.group is not None else places_for(ledger, request)
    able = [place for place in places if place.pool.fits_ever(queue.wanted)]
    if not able:
        return None
    best = best_place(able, queue.wanted)
    return reservations.at(best) if not best.pool.missing(queue.wanted) else None


def _behind_kept(kept: Reservation) -> Reason:
    older = kept.queue.waiting[kept.id].request
    places = ", ".join(dict.fromkeys(place.node.hex() for place in kept.wants))
    return Reason(
        "behind",
        f"node {places} has room, but it is kept for {_name(older)}, which wants {describe(kept.queue.wanted)} and was "
        "passed by others too often",
    )


def _name(request: LeaseRequest | GroupRequest) -> str:
    if isinstance(request, LeaseRequest):
        return name_of(request)
    return f"placement group {request.name or request.id.hex()}"
