"""The state machine: events in, grants, placements, wishes and preemptions out.

The invariant that makes every step cheap: between two events the front of no line fits anywhere where it may go. So
after an event only the fronts are tried, and only where something was freed; how many wait behind them does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.books import Books
from kernel_scheduler_fair.checks import check
from kernel_scheduler_fair.explanation import explain_request
from kernel_scheduler_fair.holders import Holders
from kernel_scheduler_fair.lines import Line, Lines
from kernel_scheduler_fair.order import Order
from kernel_scheduler_fair.placing import Placing, may_fit
from kernel_scheduler_fair.plans import Plans
from kernel_scheduler_fair.policy import Policy
from kernel_spec.holdings import Place
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.scheduling import (
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
    """The most important first, and among equals whose account holds least. One line for each account and shape."""

    name = "fair"

    def __init__(self, policy: Policy | None = None) -> None:
        self.accounts = Accounts(policy or Policy())
        self.holders = Holders()
        self.books = Books(self.accounts, self.holders)
        self.lines = Lines(self.accounts)
        self.order = Order(self.accounts, self.holders)
        self.plans = Plans(self.books, self.accounts, self.holders, self.order)
        self.placing = Placing(self.books, self.lines, self.plans)
        self.books.on_end = self.plans.lease_ended
        self.history: deque[tuple[float, Event, list[Instruction]]] = deque(maxlen=HISTORY_EVENTS)
        self._handlers: Mapping[type, Callable[[Any, float], list[Instruction]]] = {
            NodeAdded: self._node_changed,
            NodeDraining: self._node_changed,
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
        return explain_request(id, now, self.books, self.lines, self.order)

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        waiting = sorted((entry for line in self.lines for entry in line.waiting.values()), key=lambda e: e.number)
        return self.books.snapshot(entry.request for entry in waiting if isinstance(entry.request, LeaseRequest))

    def validate(self) -> None:
        """Raise AssertionError, with the last events, when an invariant is broken."""
        try:
            check(self.accounts, self.holders, self.books, self.lines, self.plans)
        except AssertionError as broken:
            story = "\n".join(f"  {now:.3f} {event} -> {done}" for now, event, done in self.history)
            raise AssertionError(f"{broken}\nThe last {len(self.history)} events:\n{story}") from broken

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node_changed(self, event: NodeAdded | NodeDraining | ResourceChanged, now: float) -> list[Instruction]:
        places = self.books.apply(event)
        self._shake_soft_lines()
        return self._serve(places, now)

    def _node_removed(self, event: NodeRemoved, now: float) -> list[Instruction]:
        node = self.books.nodes.get(event.node)
        if node is None:
            return []
        shaken = [self.books.groups[id] for id in dict.fromkeys(id for id, _ in node.bundles)]
        self.books.apply(event)
        for group in shaken:
            self.books.charge_group(group)
            self.lines.join_group(group, now)
        self._shake_soft_lines()
        return self._serve([], now)

    def _shake_soft_lines(self) -> None:
        """Look again for those whose node may have become one that they can't hope for, so that any other will do."""
        for line in self.lines:
            if line.terms.placement is not None and line.terms.placement.soft:
                line.untried = True

    # -- leases ----------------------------------------------------------------------------------------------------

    def _lease_requested(self, event: LeaseRequested, now: float) -> list[Instruction]:
        request = event.request
        if request.id in self.lines or request.id in self.books.leases:
            return []
        self._forget_idle_accounts()
        line = self.lines.join(request, now)
        return self._serve([], now) if line.untried else []

    def _lease_cancelled(self, event: LeaseCancelled, now: float) -> list[Instruction]:
        line = self.lines.find(event.id)
        return self._serve(self._leave(event.id), now) if line is not None and line.group is None else []

    def _lease_changed(self, event: LeaseReleased | LeaseBlocked | LeaseUnblocked, now: float) -> list[Instruction]:
        places = self.books.apply(event)
        self._charge(event.id)
        return self._serve(places, now)

    def _lease_held(self, event: LeaseHeld, now: float) -> list[Instruction]:
        if event.request.id in self.lines:
            self._leave(event.request.id)
        self.books.apply(event)
        self._charge(event.request.id)
        return []

    def _charge(self, id: LeaseId) -> None:
        if id in self.books.leases:
            self.books.charge_lease(self.books.leases[id])

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_requested(self, event: GroupRequested, now: float) -> list[Instruction]:
        if event.request.id in self.books.groups:
            return []
        self._forget_idle_accounts()
        self.books.apply(event)
        self.lines.join_group(self.books.groups[event.request.id], now)
        return self._serve([], now)

    def _group_removed(self, event: GroupRemoved, now: float) -> list[Instruction]:
        group = self.books.groups.get(event.id)
        if group is None:
            return []
        freed = self._leave(event.id) if event.id in self.lines else []
        freed += self.books.apply(event)
        self.books.end_group(group)
        return self._serve(freed, now)

    def _group_held(self, event: GroupHeld, now: float) -> list[Instruction]:
        """Count a group. What it lacks is looked for after the next event that is no replay: more may be held."""
        if event.request.id not in self.books.groups:
            self.books.apply(event)
            group = self.books.groups[event.request.id]
            self.books.charge_group(group)
            if group.waiting():
                self.lines.join_group(group, now)
        return []

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self, event: Tick, now: float) -> list[Instruction]:
        if not len(self.lines):
            return []
        instructions = self._serve(self.plans.end_all_over(now), now)
        instructions += self.plans.make(self._ranked(self.lines, now), now)
        return instructions + self.plans.preempt(now)

    # -- serving those who wait ------------------------------------------------------------------------------------

    def _serve(self, freed: Iterable[Place], now: float) -> list[Instruction]:
        """Give what fits to those who wait, in their order: anywhere to who was not tried, else where it was freed."""
        places = list(dict.fromkeys(place for place in freed if self.books.is_open(place)))
        anywhere = {
            line for line in self.lines if line.untried or (line.capped and line.terms.account in self.books.relieved)
        }
        self.books.relieved.clear()
        steps: list[Instruction] = []
        failed: set[Line] = set()
        while (places or anywhere) and (step := self._serve_first(places, anywhere, failed, now)) is not None:
            steps.append(step)
            if isinstance(step, PlaceGroup):
                # Who waited for these bundles may have been tried before they were there.
                places += [self.books.groups[step.id].bundles[bundle.index] for bundle in step.bundles]
                failed = {line for line in failed if line.in_group != step.id}
        return steps

    def _serve_first(
        self, places: list[Place], anywhere: set[Line], failed: set[Line], now: float
    ) -> Grant | PlaceGroup | None:
        """Serve the first line for which there is something. Lines that have `failed` are tried when a plan ends."""
        lines = [
            line
            for line in self.lines
            if line not in failed and (line in anywhere or any(may_fit(line, place) for place in places))
        ]
        for line in self._ranked(lines, now):
            step = self.placing.serve(line, None if line in anywhere else places, now)
            if step is None:
                failed.add(line)
                continue
            if line.waiting:
                line.untried = line in anywhere
            elif kept := self.plans.end_of(line):
                places += [node for node in kept if node not in places and not node.draining]
                failed.clear()
            return step
        return None

    def _ranked(self, lines: Iterable[Line], now: float) -> list[Line]:
        return sorted(lines, key=lambda line: self.order.rank(line, now))

    def _forget_idle_accounts(self) -> None:
        if self.accounts.are_many:
            waiting = (line.terms.account for line in self.lines)
            holding = (kind.account for kind in self.holders)
            self.accounts.forget_idle(chain(waiting, holding))

    def _leave(self, id: LeaseId | GroupId) -> list[Place]:
        """Let a waiting request go, and return the nodes that were kept for its line if nobody is left in it."""
        line = self.lines.leave(id)
        return [] if line.waiting else list(self.plans.end_of(line))
