"""Why a request waits, in a code for programs and a sentence for people."""

from __future__ import annotations

from kernel_scheduler_fair.accounts import Account
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.queues import AccountQueue, AccountQueues
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.reasons import explain, name_of, why_group_waits, why_lease_waits
from kernel_spec.resources import Amounts, describe
from kernel_spec.scheduling import LeaseRequest, Reason


def explain_request(id: LeaseId | GroupId, now: float, ledger: Ledger, queues: AccountQueues, order: Order) -> Reason:
    """Say why the request `id` of a lease or a group waits."""
    queue = queues.find(id)
    if queue is None:
        return explain(ledger, id)
    entry = queue.waiting[id]
    if isinstance(entry.request, LeaseRequest):
        reason = why_lease_waits(ledger, entry.request)
    else:
        assert queue.group is not None
        reason = why_group_waits(ledger, queue.group)
    if reason.code == "infeasible":
        return reason
    account = queue.profile.account
    if not account.ever_allows(queue.costs):
        most = describe({name: account.quota[name] for name in queue.costs.keys() & account.quota.keys()})
        return Reason(
            "infeasible", f"it wants {describe(queue.costs)}, and the quota of account {account.name} is {most}"
        )
    first = queue.front
    if first.request.id != id:
        place = list(queue.waiting).index(id) + 1
        assert isinstance(first.request, LeaseRequest)
        waited = f"the first in line, {name_of(first.request)}, has waited {now - first.since:.1f} s"
        why = _over_quota(account, queue.costs) or reason.text
        return Reason(
            "behind",
            f"it is number {place} in line for {describe(queue.wanted)} on account {account.name}; {waited}: {why}",
        )
    quota = _over_quota(account, queue.costs)
    if quota:
        return Reason("busy", quota)
    return Reason(reason.code, reason.text + _standing(queue, now, queues, order))


def _over_quota(account: Account, wanted: Amounts) -> str:
    """Return how an account's quota stands in the way, or nothing."""
    over = [
        f"{describe({name: account.used.get(name, 0)})} of {describe({name: most})}"
        for name, most in sorted(account.quota.items())
        if account.used.get(name, 0) + wanted.get(name, 0) > most and name in wanted
    ]
    if not over:
        return ""
    return f"it wants {describe(wanted)}, and account {account.name} holds {', '.join(over)}, its quota"


def _standing(queue: AccountQueue, now: float, queues: AccountQueues, order: Order) -> str:
    """Say how many queues are served before this one."""
    rank = order.rank(queue, now)
    before = sum(order.rank(other, now) < rank for other in queues)
    share = f"account {queue.profile.account.name} holds {rank[1]:.1%} of all, for its weight"
    return f"; its priority is {order.priority(queue, now):g}, and {share}" + (
        f", {before} lines are served before it" if before else ""
    )
