"""Plans: which leases make room for waiting requests, and which nodes are kept for these until then.

A holder keeps a lease while it has tasks for it, which may be hours. So for a request that has waited a moment a plan
is made: which leases on which nodes would make room, if they ended. They are asked back, and the nodes are kept for who
waits until they have. What does not come in time is preempted, where its work is less important and can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.fair_ledger import FairLedger
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.plan_table import Plan, PlanTable
from kernel_scheduler_fair.queues import AccountQueue
from kernel_scheduler_fair.room_search import RoomSearch
from kernel_spec.holdings import NodePlace
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.scheduling import Instruction, Preempt, Reclaim

PLAN_SECONDS = 30.0
"""Seconds that a plan stands before others get a turn again."""
AGAIN_SECONDS = 0.5
"""Seconds between two attempts to make a plan while there is no holder to ask."""
MOST_PLANS = 1024
"""How many requests of a queue are planned for at a time."""
MOST_TRIES = 64
"""How many plans are tried at one tick."""


class Plans:
    """All plans. A lease is asked back at most once, and is in at most one plan."""

    def __init__(self, ledger: FairLedger, accounts: Accounts, holders: Holders, order: Order) -> None:
        self.table = PlanTable()
        self._ledger = ledger
        self._accounts = accounts
        self._holders = holders
        self._order = order
        self._preempted: set[LeaseId] = set()
        self._hopeless_until: dict[AccountQueue, float] = {}

    def lease_ended(self, id: LeaseId) -> None:
        """Note that a lease is over."""
        self.table.asked.discard(id)
        self._preempted.discard(id)
        plan = self.table.of_lease.pop(id, None)
        if plan is not None:
            del plan.leases[id]

    def keeps_out(self, queue: AccountQueue, node: NodeId, now: float) -> bool:
        """Return whether a node is kept for others than `queue`: for some that want the same and come first."""
        plans = self.table.on_node.get(node, ())
        if not plans or any(plan.queue is queue for plan in plans):
            return False
        rank = self._order.rank(queue, now)
        return any(
            not plan.queue.wanted.keys().isdisjoint(queue.wanted)
            and (
                self._order.rank(plan.queue, now) < rank or (plan.starving and -rank[0] <= plan.queue.profile.priority)
            )
            for plan in plans
        )

    def end_all_over(self, now: float) -> list[NodePlace]:
        """Give up the plans that are done, hopeless or too old, and return the nodes where others may now go."""
        return self._end(
            plan
            for queue, plans in self.table.of_queue.items()
            for number, plan in enumerate(plans)
            if number >= len(queue.waiting) or self._is_over(plan, now)
        )

    def end_of(self, queue: AccountQueue) -> list[NodePlace]:
        """Give up the plans for a queue that has become empty; return the nodes where others may now go."""
        return self._end(self.table.of_queue.get(queue, ()))

    def make(self, ranked: Sequence[AccountQueue], now: float) -> list[Instruction]:
        """Plan for queues that have waited, in their order, and return whom to ask back."""
        search = RoomSearch(self.table, self._ledger, self._accounts, self._holders, self._order, now)
        instructions: list[Instruction] = []
        self._hopeless_until = {queue: until for queue, until in self._hopeless_until.items() if until > now}
        tries = 0
        for queue in ranked:
            if now - queue.front.since < self._accounts.policy.reclaim_seconds or queue in self._hopeless_until:
                continue
            most = min(len(queue.waiting), MOST_PLANS)
            while tries < MOST_TRIES and len(self.table.of_queue.get(queue, ())) < most:
                tries += 1
                starving = self._order.starves(queue, now) and queue not in self.table.of_queue
                found = search.room_for(queue, starving)
                if found is None:
                    self._hopeless_until[queue] = now + AGAIN_SECONDS
                    break
                instructions += self._add(Plan(queue, *found, now, starving))
        return instructions

    def preempt(self, now: float) -> list[Instruction]:
        """Return which leases to end now: those that did not come back in time and whose work is less important."""
        instructions: list[Instruction] = []
        for plan in self.table:
            if now - plan.since < self._accounts.policy.preempt_seconds:
                continue
            for id, lease in plan.leases.items():
                kind = self._holders.kind_of(lease)
                if kind.preemptible and kind.priority < plan.queue.profile.priority and id not in self._preempted:
                    self._preempted.add(id)
                    reason = f"priority {plan.queue.profile.priority:g} waits, and this has {kind.priority:g}"
                    instructions.append(Preempt(id, reason))
        return instructions

    def validate(self) -> None:
        """Raise AssertionError when plans and indexes differ."""
        self.table.validate()
        assert self.table.of_lease.keys() <= self._ledger.leases.keys(), "a plan counts on a lease that is over"
        assert self.table.asked <= self._ledger.leases.keys(), "a lease that is over was asked back"

    def _is_over(self, plan: Plan, now: float) -> bool:
        return (
            not plan.leases
            or now - plan.since >= PLAN_SECONDS
            or any(node not in self._ledger.nodes or self._ledger.nodes[node].draining for node in plan.claims)
        )

    def _add(self, plan: Plan) -> list[Instruction]:
        self.table.add(plan)
        reclaims: list[Instruction] = []
        for id, lease in plan.leases.items():
            if id not in self.table.asked and not lease.request.for_actor:
                self.table.asked.add(id)
                reclaims.append(Reclaim(id))
        return reclaims

    def _end(self, plans: Iterable[Plan]) -> list[NodePlace]:
        nodes: dict[NodeId, None] = {}
        for plan in list(plans):
            nodes |= dict.fromkeys(plan.claims)
            self.table.remove(plan)
        return [self._ledger.nodes[node] for node in nodes if node in self._ledger.nodes]
