"""What must hold between two events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_scheduler_fair.lines import Line
from kernel_spec.choosing import places_for
from kernel_spec.holdings import NodePlace
from kernel_spec.scheduling import LeaseRequest

if TYPE_CHECKING:
    from kernel_scheduler_fair.scheduler import FairScheduler


def check(scheduler: FairScheduler) -> None:
    """Raise AssertionError, naming what is wrong, when an invariant is broken."""
    scheduler.books.validate()
    for index in (scheduler.books.free, scheduler.books.could):
        index.check(scheduler.books.nodes)
    scheduler.accounts.validate(scheduler.books.expected_charges())
    scheduler.plans.validate()
    held = {id for kind in scheduler.holders for id in kind.leases}
    assert held == scheduler.books.leases.keys(), f"holders know {sorted(held)}"
    for line in scheduler.lines:
        _check_line(scheduler, line)
    _check_groups(scheduler)


def _check_line(scheduler: FairScheduler, line: Line) -> None:
    assert line.waiting, f"an empty line is kept for {line.wanted}"
    numbers = [entry.number for entry in line.waiting.values()]
    assert numbers == sorted(numbers), f"the line for {line.wanted} is out of order: {numbers}"
    for id in line.waiting:
        assert id not in scheduler.books.leases, f"request {id.hex()} waits and is granted"
        assert scheduler.lines.find(id) is line, f"request {id.hex()} is not found where it waits"
    request = line.front.request
    if not isinstance(request, LeaseRequest) or line.untried or not line.terms.account.allows(line.costs):
        return
    for place in places_for(scheduler.books, request):
        if isinstance(place, NodePlace) and place.node in scheduler.plans.on_node:
            continue
        missing = place.pool.missing(line.wanted)
        assert missing, f"{line.wanted} waits although node {place.node.hex()} has {place.pool.available} free"


def _check_groups(scheduler: FairScheduler) -> None:
    waiting = {group.request.id for group in scheduler.books.waiting_groups()}
    lines = {line.group.request.id for line in scheduler.lines if line.group is not None}
    assert waiting == lines, f"groups that lack bundles {waiting}, groups in line {lines}"
