"""The plans that stand, by the queues that they are for, and by the nodes and leases that they count on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_scheduler_fair.queues import AccountQueue
from kernel_spec.dataclass import dataclass
from kernel_spec.holdings import Lease
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import Amounts

Claims = dict[NodeId, list[Amounts]]
"""The amounts to take, by node."""


@dataclass(slots=True, eq=False)
class Plan:
    """`leases` are to end for one request of `queue`, which then takes `claims`; made at `since` (seconds).

    `starving`: it is for a queue that has nothing, and comes before all others of its priority.
    """

    queue: AccountQueue
    claims: Claims
    leases: dict[LeaseId, Lease]
    since: float
    starving: bool


class PlanTable:
    """All plans. A lease is in at most one of them; `asked` are the leases that were asked back."""

    def __init__(self) -> None:
        self.of_queue: dict[AccountQueue, list[Plan]] = {}
        self.on_node: dict[NodeId, list[Plan]] = {}
        self.of_lease: dict[LeaseId, Plan] = {}
        self.asked: set[LeaseId] = set()

    def __iter__(self) -> Iterator[Plan]:
        return (plan for plans in self.of_queue.values() for plan in plans)

    def add(self, plan: Plan) -> None:
        """Keep a plan."""
        self.of_queue.setdefault(plan.queue, []).append(plan)
        for node in plan.claims:
            self.on_node.setdefault(node, []).append(plan)
        for id in plan.leases:
            self.of_lease[id] = plan

    def remove(self, plan: Plan) -> None:
        """Forget a plan."""
        _drop(self.of_queue, plan.queue, plan)
        for node in plan.claims:
            _drop(self.on_node, node, plan)
        for id in plan.leases:
            del self.of_lease[id]

    def validate(self) -> None:
        """Raise AssertionError when plans and indexes differ."""
        for plan in self:
            assert all(self.of_lease[id] is plan for id in plan.leases), "a lease is in two plans"
            assert all(plan in self.on_node[node] for node in plan.claims), "a plan is not on its node"
        count = sum(len(plan.leases) for plan in self)
        assert len(self.of_lease) == count, "a lease is kept for a plan that is gone"


def _drop(index: dict[Any, list[Plan]], key: object, plan: Plan) -> None:
    index[key].remove(plan)
    if not index[key]:
        del index[key]
