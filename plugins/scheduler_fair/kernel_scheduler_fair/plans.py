"""Which leases make room for those who wait, and what is kept for these until then.

A holder keeps a lease while it has tasks for it, which may be hours. So for a request that has waited a moment a plan
is made: which leases on which nodes would make room, if they ended. They are asked back, and the nodes are kept for who
waits until they have. What does not come in time is preempted, where its work is less important and can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.books import Books
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.lines import Line
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.victims import Claims, Search
from kernel_spec.dataclass import dataclass
from kernel_spec.holdings import Lease, NodePlace
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.scheduling import Instruction, Preempt, Reclaim

PLAN_SECONDS = 30.0
"""How long a plan stands before others get a turn again."""
AGAIN_SECONDS = 0.5
"""After what time it is tried again to make a plan where there was nobody to ask."""
MOST_PLANS = 1024
"""How many requests of a line are planned for at a time."""
MOST_TRIES = 64
"""How many plans are tried at one tick."""


@dataclass(slots=True, eq=False)
class Plan:
    """`leases` are to end for one request of `line`, which then takes `claims`; made at `since` (seconds).

    `starving`: it is for a line that has nothing, and comes before all others of its priority.
    """

    line: Line
    claims: Claims
    leases: dict[LeaseId, Lease]
    since: float
    starving: bool


class Plans:
    """All plans. A lease is asked back at most once, and is in at most one plan."""

    def __init__(self, books: Books, accounts: Accounts, holders: Holders, order: Order) -> None:
        self.on_node: dict[NodeId, list[Plan]] = {}
        self.of_lease: dict[LeaseId, Plan] = {}
        self.asked: set[LeaseId] = set()
        self._books = books
        self._accounts = accounts
        self._holders = holders
        self._order = order
        self._of_line: dict[Line, list[Plan]] = {}
        self._preempted: set[LeaseId] = set()
        self._hopeless_until: dict[Line, float] = {}

    def __iter__(self) -> Iterator[Plan]:
        return (plan for plans in self._of_line.values() for plan in plans)

    def lease_ended(self, id: LeaseId) -> None:
        """Note that a lease is over."""
        self.asked.discard(id)
        self._preempted.discard(id)
        plan = self.of_lease.pop(id, None)
        if plan is not None:
            del plan.leases[id]

    def keeps_out(self, line: Line, node: NodeId, now: float) -> bool:
        """Return whether a node is kept for others than `line`: for some that want the same and come first."""
        plans = self.on_node.get(node, ())
        if not plans or any(plan.line is line for plan in plans):
            return False
        rank = self._order.rank(line, now)
        return any(
            not plan.line.wanted.keys().isdisjoint(line.wanted)
            and (self._order.rank(plan.line, now) < rank or (plan.starving and -rank[0] <= plan.line.terms.priority))
            for plan in plans
        )

    def end_all_over(self, now: float) -> list[NodePlace]:
        """Give up the plans that are done, hopeless or too old, and return the nodes where others may now go."""
        return self._end(
            plan
            for line, plans in self._of_line.items()
            for number, plan in enumerate(plans)
            if number >= len(line.waiting) or self._is_over(plan, now)
        )

    def end_of(self, line: Line) -> list[NodePlace]:
        """Give up the plans for a line in which nobody waits any more, and return the nodes where others may now go."""
        return self._end(self._of_line.get(line, ()))

    def make(self, ranked: Sequence[Line], now: float) -> list[Instruction]:
        """Plan for lines that have waited, in their order, and return whom to ask back."""
        search = Search(self, self._books, self._accounts, self._holders, self._order, now)
        instructions: list[Instruction] = []
        self._hopeless_until = {line: until for line, until in self._hopeless_until.items() if until > now}
        tries = 0
        for line in ranked:
            if now - line.front.since < self._accounts.policy.reclaim_seconds or line in self._hopeless_until:
                continue
            most = min(len(line.waiting), MOST_PLANS)
            while tries < MOST_TRIES and len(self._of_line.get(line, ())) < most:
                tries += 1
                starving = self._order.starves(line, now) and line not in self._of_line
                found = search.room_for(line, starving)
                if found is None:
                    self._hopeless_until[line] = now + AGAIN_SECONDS
                    break
                instructions += self._add(Plan(line, *found, now, starving))
        return instructions

    def preempt(self, now: float) -> list[Instruction]:
        """Return which leases to end now: those that did not come back in time and whose work is less important."""
        instructions: list[Instruction] = []
        for plan in self:
            if now - plan.since < self._accounts.policy.preempt_seconds:
                continue
            for id, lease in plan.leases.items():
                kind = self._holders.kind_of(lease)
                if kind.preemptible and kind.priority < plan.line.terms.priority and id not in self._preempted:
                    self._preempted.add(id)
                    reason = f"priority {plan.line.terms.priority:g} waits, and this has {kind.priority:g}"
                    instructions.append(Preempt(id, reason))
        return instructions

    def validate(self) -> None:
        """Raise AssertionError when plans and indexes differ."""
        for plan in self:
            assert all(self.of_lease[id] is plan for id in plan.leases), "a lease is in two plans"
            assert all(plan in self.on_node[node] for node in plan.claims), "a plan is not on its node"
        assert len(self.of_lease) == sum(len(plan.leases) for plan in self), "a lease is kept for a plan that is gone"
        assert self.of_lease.keys() <= self._books.leases.keys(), "a plan counts on a lease that is over"
        assert self.asked <= self._books.leases.keys(), "a lease that is over was asked back"

    def _is_over(self, plan: Plan, now: float) -> bool:
        return (
            not plan.leases
            or now - plan.since >= PLAN_SECONDS
            or any(node not in self._books.nodes or self._books.nodes[node].draining for node in plan.claims)
        )

    def _add(self, plan: Plan) -> list[Instruction]:
        self._of_line.setdefault(plan.line, []).append(plan)
        for node in plan.claims:
            self.on_node.setdefault(node, []).append(plan)
        reclaims: list[Instruction] = []
        for id, lease in plan.leases.items():
            self.of_lease[id] = plan
            if id not in self.asked and not lease.request.for_actor:
                self.asked.add(id)
                reclaims.append(Reclaim(id))
        return reclaims

    def _end(self, plans: Iterable[Plan]) -> list[NodePlace]:
        nodes: dict[NodeId, None] = {}
        for plan in list(plans):
            nodes |= dict.fromkeys(plan.claims)
            _drop(self._of_line, plan.line, plan)
            for node in plan.claims:
                _drop(self.on_node, node, plan)
            for id in plan.leases:
                del self.of_lease[id]
        return [self._books.nodes[node] for node in nodes if node in self._books.nodes]


def _drop(index: dict[Any, list[Plan]], key: object, plan: Plan) -> None:
    index[key].remove(plan)
    if not index[key]:
        del index[key]
