"""What must hold between two events."""

from __future__ import annotations

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.books import Books
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.lines import Line, Lines
from kernel_scheduler_fair.plans import Plans
from kernel_spec.choosing import places_for
from kernel_spec.holdings import NodePlace
from kernel_spec.scheduling import LeaseRequest


def check(accounts: Accounts, holders: Holders, books: Books, lines: Lines, plans: Plans) -> None:
    """Raise AssertionError, naming what is wrong, when an invariant is broken."""
    books.validate()
    for index in (books.free, books.could):
        index.check(books.nodes)
    accounts.validate(books.expected_charges())
    plans.validate()
    held = {id for kind in holders for id in kind.leases}
    assert held == books.leases.keys(), f"holders know {sorted(held)}"
    for line in lines:
        _check_line(books, lines, plans, line)
    _check_groups(books, lines)


def _check_line(books: Books, lines: Lines, plans: Plans, line: Line) -> None:
    assert line.waiting, f"an empty line is kept for {line.wanted}"
    numbers = [entry.number for entry in line.waiting.values()]
    assert numbers == sorted(numbers), f"the line for {line.wanted} is out of order: {numbers}"
    for id in line.waiting:
        assert id not in books.leases, f"request {id.hex()} waits and is granted"
        assert lines.find(id) is line, f"request {id.hex()} is not found where it waits"
    request = line.front.request
    if not isinstance(request, LeaseRequest) or line.untried or not line.terms.account.allows(line.costs):
        return
    for place in places_for(books, request):
        if isinstance(place, NodePlace) and place.node in plans.table.on_node:
            continue
        missing = place.pool.missing(line.wanted)
        assert missing, f"{line.wanted} waits although node {place.node.hex()} has {place.pool.available} free"


def _check_groups(books: Books, lines: Lines) -> None:
    waiting = {group.request.id for group in books.waiting_groups()}
    in_line = {line.group.request.id for line in lines if line.group is not None}
    assert waiting == in_line, f"groups that lack bundles {waiting}, groups in line {in_line}"
