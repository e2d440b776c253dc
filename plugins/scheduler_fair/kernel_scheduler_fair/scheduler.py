"""The state machine: events in, grants, placements, wishes and preemptions out.

The invariant that makes every step cheap: between two events the front of no queue fits anywhere where it may go. So
after an event only the fronts are tried, and only where something was freed; how many wait behind them does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.checks import check
from kernel_scheduler_fair.explanation import explain_request
from kernel_scheduler_fair.fair_ledger import FairLedger
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.placing import Placing, may_fit
from kernel_scheduler_fair.plans import Plans
from kernel_scheduler_fair.policy import Policy
from kernel_scheduler_fair.queues import AccountQueue, AccountQueues
from kernel_spec.holdings import Place
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.scheduling import (
    DrainCancelled,
    Event,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequested,
    Instruction,
    LeaseBlocked,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    LeaseUnblocked,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    PlaceGroup,
    Reason,
    ResourceChanged,
    SchedulerSnapshot,
    Tick,
)

HISTORY_EVENTS = 200
"""How many events are kept, to be printed when an invariant is broken."""


class FairScheduler:
    """The most important first, and among equals whose account holds least. One queue for each account and shape."""

    name = "fair"

    def __init__(self, policy: Policy | None = None) -> None:
        self.accounts = Accounts(policy or Policy())
        self.holders = Holders()
        self.ledger = FairLedger(self.accounts, self.holders)
        self.queues = AccountQueues(self.accounts)
        self.order = Order(self.accounts, self.holders)
        self.plans = Plans(self.ledger, self.accounts, self.holders, self.order)
        self.placing = Placing(self.ledger, self.queues, self.plans)
        self.ledger.on_end = self.plans.lease_ended
        self.history: deque[tuple[float, Event, list[Instruction]]] = deque(maxlen=HISTORY_EVENTS)
        self._handlers: Mapping[type, Callable[[Any, float], list[Instruction]]] = {
            NodeAdded: self._node_changed,
            NodeDraining: self._node_changed,
            DrainCancelled: self._node_changed,
            ResourceChanged: self._node_changed,
            NodeRemoved: self._node_removed,
            LeaseRequested: self._lease_requested,
            LeaseCancelled: self._lease_cancelled,
            LeaseReleased: self._lease_changed,
            LeaseBlocked: self._lease_changed,
            LeaseUnblocked: self._lease_changed,
            LeaseHeld: self._lease_held,
            GroupRequested: self._group_requested,
            GroupRemoved: self._group_removed,
            GroupHeld: self._group_held,
            Tick: self._tick,
        }

    # -- the contract ----------------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order. An event of an unknown kind changes nothing."""
        handler = self._handlers.get(type(event))
        instructions = handler(event, now) if handler is not None else []
        if instructions or type(event) is not Tick:
            self.history.append((now, event, instructions))
        return instructions

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        """Say why the request `id` waits: what is missing, who has it, who comes first, or which quota is used up."""
        return explain_request(id, now, self.ledger, self.queues, self.order)

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        waiting = sorted((entry for queue in self.queues for entry in queue.waiting.values()), key=lambda e: e.number)
        return self.ledger.snapshot(entry.request for entry in waiting if isinstance(entry.request, LeaseRequest))

    def validate(self) -> None:
        """Raise AssertionError, with the last events, when an invariant is broken."""
        try:
            check(self.accounts, self.holders, self.ledger, self.queues, self.plans)
        except AssertionError as broken:
            story = "\n".join(f"  {now:.3f} {event} -> {done}" for now, event, done in self.history)
            raise AssertionError(f"{broken}\nThe last {len(self.history)} events:\n{story}") from broken

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node_changed(
        self, event: NodeAdded | NodeDraining | DrainCancelled | ResourceChanged, now: float
    ) -> list[Instruction]:
        places = self.ledger.apply(event)
        self._shake_soft_queues()
        return self._serve(places, now)

    def _node_removed(self, event: NodeRemoved, now: float) -> list[Instruction]:
        node = self.ledger.nodes.get(event.node)
        if node is None:
            return []
        shaken = [self.ledger.groups[id] for id in dict.fromkeys(id for id, _ in node.bundles)]
        self.ledger.apply(event)
        for group in shaken:
            self.ledger.charge_group(group)
            self.queues.join_group(group, now)
        self._shake_soft_queues()
        return self._serve([], now)

    def _shake_soft_queues(self) -> None:
        """Look again for those whose node may have become one that they can't hope for, so that any other will do."""
        for queue in self.queues:
            if queue.profile.placement is not None and queue.profile.placement.soft:
                queue.untried = True

    # -- leases ----------------------------------------------------------------------------------------------------

    def _lease_requested(self, event: LeaseRequested, now: float) -> list[Instruction]:
        request = event.request
        if request.id in self.queues or request.id in self.ledger.leases:
            return []
        self._forget_idle_accounts()
        queue = self.queues.join(request, now)
        return self._serve([], now) if queue.untried else []

    def _lease_cancelled(self, event: LeaseCancelled, now: float) -> list[Instruction]:
        queue = self.queues.find(event.id)
        return self._serve(self._leave(event.id), now) if queue is not None and queue.group is None else []

    def _lease_changed(self, event: LeaseReleased | LeaseBlocked | LeaseUnblocked, now: float) -> list[Instruction]:
        places = self.ledger.apply(event)
        self._charge(event.id)
        return self._serve(places, now)

    def _lease_held(self, event: LeaseHeld, now: float) -> list[Instruction]:
        if event.request.id in self.queues:
            self._leave(event.request.id)
        self.ledger.apply(event)
        self._charge(event.request.id)
        return []

    def _charge(self, id: LeaseId) -> None:
        if id in self.ledger.leases:
            self.ledger.charge_lease(self.ledger.leases[id])

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_requested(self, event: GroupRequested, now: float) -> list[Instruction]:
        if event.request.id in self.ledger.groups:
            return []
        self._forget_idle_accounts()
        self.ledger.apply(event)
        self.queues.join_group(self.ledger.groups[event.request.id], now)
        return self._serve([], now)

    def _group_removed(self, event: GroupRemoved, now: float) -> list[Instruction]:
        group = self.ledger.groups.get(event.id)
        if group is None:
            return []
        freed = self._leave(event.id) if event.id in self.queues else []
        freed += self.ledger.apply(event)
        self.ledger.end_group(group)
        return self._serve(freed, now)

    def _group_held(self, event: GroupHeld, now: float) -> list[Instruction]:
        """Count a group. What it lacks is looked for after the next event that is no replay: more may be held."""
        if event.request.id not in self.ledger.groups:
            self.ledger.apply(event)
            group = self.ledger.groups[event.request.id]
            self.ledger.charge_group(group)
            if group.waiting():
                self.queues.join_group(group, now)
        return []

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self, event: Tick, now: float) -> list[Instruction]:
        if not len(self.queues):
            return []
        instructions = self._serve(self.plans.end_all_over(now), now)
        instructions += self.plans.make(self._ranked(self.queues, now), now)
        return instructions + self.plans.preempt(now)

    # -- serving those who wait ------------------------------------------------------------------------------------

    def _serve(self, freed: Iterable[Place], now: float) -> list[Instruction]:
        """Give what fits to those who wait, in their order: anywhere to who was not tried, else where it was freed."""
        places = list(dict.fromkeys(place for place in freed if self.ledger.is_open(place)))
        anywhere = {
            queue
            for queue in self.queues
            if queue.untried or (queue.capped and queue.profile.account in self.ledger.relieved)
        }
        self.ledger.relieved.clear()
        steps: list[Instruction] = []
        failed: set[AccountQueue] = set()
        while (places or anywhere) and (step := self._serve_first(places, anywhere, failed, now)) is not None:
            steps.append(step)
            if isinstance(step, PlaceGroup):
                # Who waited for these bundles may have been tried before they were there.
                places += [self.ledger.groups[step.id].bundles[bundle.index] for bundle in step.bundles]
                failed = {queue for queue in failed if queue.in_group != step.id}
        return steps

    def _serve_first(
        self, places: list[Place], anywhere: set[AccountQueue], failed: set[AccountQueue], now: float
    ) -> Grant | PlaceGroup | None:
        """Serve the first queue for which there is something. Queues that have `failed` are tried when a plan ends."""
        queues = [
            queue
            for queue in self.queues
            if queue not in failed and (queue in anywhere or any(may_fit(queue, place) for place in places))
        ]
        for queue in self._ranked(queues, now):
            step = self.placing.serve(queue, None if queue in anywhere else places, now)
            if step is None:
                failed.add(queue)
                continue
            if queue.waiting:
                queue.untried = queue in anywhere
            elif kept := self.plans.end_of(queue):
                places += [node for node in kept if node not in places and not node.draining]
                failed.clear()
            return step
        return None

    def _ranked(self, queues: Iterable[AccountQueue], now: float) -> list[AccountQueue]:
        return sorted(queues, key=lambda queue: self.order.rank(queue, now))

    def _forget_idle_accounts(self) -> None:
        if self.accounts.are_many:
            waiting = (queue.profile.account for queue in self.queues)
            holding = (kind.account for kind in self.holders)
            self.accounts.forget_idle(chain(waiting, holding))

    def _leave(self, id: LeaseId | GroupId) -> list[Place]:
        """Let a waiting request go, and return the nodes that were kept for its queue if that is now empty."""
        queue = self.queues.leave(id)
        return [] if queue.waiting else list(self.plans.end_of(queue))
