"""Why a request waits, with its place in line."""

from __future__ import annotations

from kernel_scheduler_fifo.lines import Line, Lines
from kernel_scheduler_fifo.reservations import Reservation, Reservations
from kernel_spec.choosing import bundles_for, places_for
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.reasons import best_place, explain, name_of
from kernel_spec.resources import describe
from kernel_spec.scheduling import GroupRequest, LeaseRequest, Reason


def explain_waiting(
    id: LeaseId | GroupId, now: float, lines: Lines, ledger: Ledger, reservations: Reservations
) -> Reason:
    """Say why the request `id` waits, or what it has."""
    line = lines.find(id)
    if line is None:
        return explain(ledger, id)
    request = line.waiting[id].request
    reason = _reason(ledger, request)
    if reason.code == "infeasible":
        return reason
    front = line.front
    if front.request.id == id:
        kept = _kept_for_others(line, ledger, reservations)
        return _behind_kept(kept) if kept is not None else reason
    place = list(line.waiting).index(id) + 1
    what = "placement groups like it" if line.gang else describe(line.wanted)
    return Reason(
        "behind",
        f"it is number {place} in line for {what}, first come, first served; the first in line, "
        f"{_name(front.request)}, has waited {now - front.since:.1f} s: {_reason(ledger, front.request).text}",
    )


def _reason(ledger: Ledger, request: LeaseRequest | GroupRequest) -> Reason:
    if isinstance(request, LeaseRequest):
        return explain(ledger, request.id, request)
    return explain(ledger, request.id)


def _kept_for_others(line: Line, ledger: Ledger, reservations: Reservations) -> Reservation | None:
    """Return the reservation that keeps the front of a line of leases from a place that has room."""
    request = line.front.request
    if not reservations or not isinstance(request, LeaseRequest):
        return None
    places = bundles_for(ledger, request) if line.group is not None else places_for(ledger, request)
    able = [place for place in places if place.pool.fits_ever(line.wanted)]
    if not able:
        return None
    best = best_place(able, line.wanted)
    return reservations.at(best) if not best.pool.missing(line.wanted) else None


def _behind_kept(kept: Reservation) -> Reason:
    older = kept.line.waiting[kept.id].request
    places = ", ".join(dict.fromkeys(place.node.hex() for place in kept.wants))
    return Reason(
        "behind",
        f"node {places} has room, but it is kept for {_name(older)}, which wants {describe(kept.line.wanted)} and was "
        "passed by others too often",
    )


def _name(request: LeaseRequest | GroupRequest) -> str:
    if isinstance(request, LeaseRequest):
        return name_of(request)
    return f"placement group {request.name or request.id.hex()}"
