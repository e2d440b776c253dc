"""Invariants that hold between two events."""

from __future__ import annotations

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.fair_ledger import FairLedger
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.plans import Plans
from kernel_scheduler_fair.queues import AccountQueue, AccountQueues
from kernel_spec.choosing import places_for
from kernel_spec.holdings import NodePlace
from kernel_spec.scheduling import LeaseRequest


def check(accounts: Accounts, holders: Holders, ledger: FairLedger, queues: AccountQueues, plans: Plans) -> None:
    """Raise AssertionError, naming what is wrong, when an invariant is broken."""
    ledger.validate()
    for index in (ledger.free, ledger.could):
        index.check(ledger.nodes)
    accounts.validate(ledger.expected_charges())
    plans.validate()
    held = {id for kind in holders for id in kind.leases}
    assert held == ledger.leases.keys(), f"holders know {sorted(held)}"
    for queue in queues:
        _check_queue(ledger, queues, plans, queue)
    _check_groups(ledger, queues)


def _check_queue(ledger: FairLedger, queues: AccountQueues, plans: Plans, queue: AccountQueue) -> None:
    assert queue.waiting, f"an empty line is kept for {queue.wanted}"
    numbers = [entry.number for entry in queue.waiting.values()]
    assert numbers == sorted(numbers), f"the line for {queue.wanted} is out of order: {numbers}"
    for id in queue.waiting:
        assert id not in ledger.leases, f"request {id.hex()} waits and is granted"
        assert queues.find(id) is queue, f"request {id.hex()} is not found where it waits"
    request = queue.front.request
    if not isinstance(request, LeaseRequest) or queue.untried or not queue.profile.account.allows(queue.costs):
        return
    for place in places_for(ledger, request):
        if isinstance(place, NodePlace) and place.node in plans.table.on_node:
            continue
        missing = place.pool.missing(queue.wanted)
        assert missing, f"{queue.wanted} waits although node {place.node.hex()} has {place.pool.available} free"


def _check_groups(ledger: FairLedger, queues: AccountQueues) -> None:
    waiting = {group.request.id for group in ledger.waiting_groups()}
    in_queue = {queue.group.request.id for queue in queues if queue.group is not None}
    assert waiting == in_queue, f"groups that lack bundles {waiting}, groups in line {in_queue}"
