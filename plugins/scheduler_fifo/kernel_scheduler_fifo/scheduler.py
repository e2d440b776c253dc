"""The state machine: events in, grants, groups and wishes out."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kernel_scheduler_fifo.checks import check
from kernel_scheduler_fifo.explanation import explain_waiting
from kernel_scheduler_fifo.finding import Finder
from kernel_scheduler_fifo.group_placing import GroupPlacing
from kernel_scheduler_fifo.nodes import Nodes
from kernel_scheduler_fifo.queues import OVERTAKEN_SECONDS, QueuedRequest, ShapeQueue, ShapeQueues
from kernel_scheduler_fifo.reclaim import PATIENCE_SECONDS, choose_leases_to_reclaim
from kernel_scheduler_fifo.reservations import Reservation, Reservations
from kernel_spec.holdings import Place
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import (
    DrainCancelled,
    Event,
    GroupHeld,
    GroupRemoved,
    GroupRequested,
    Instruction,
    LeaseCancelled,
    LeaseHeld,
    LeaseRequest,
    LeaseRequested,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    Reason,
    Reclaim,
    ResourceChanged,
    SchedulerSnapshot,
    Tick,
)

HISTORY_EVENTS = 200
"""How many of the last events a failed `validate` prints."""
HOPELESS_SECONDS = 0.5
"""Seconds before a place to reserve is sought again when none was found."""
GROUPS_A_TICK = 32
"""How many waiting groups are tried at a tick; those for which something was freed are tried at once anyway."""


class FifoScheduler:
    """First in, first out within a shape; a shape that does not fit lets others pass, but not for ever.

    A shape is what a request wants and where. The invariant that makes every step cheap: between two events the
    front of no queue fits anywhere. So after an event only the fronts are tried, and only where something was freed;
    how many wait behind them does not matter, and neither does how many nodes there are.
    """

    name = "fifo"

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.queues = ShapeQueues()
        self.reservations = Reservations()
        self.history: deque[tuple[float, Event, list[Instruction]]] = deque(maxlen=HISTORY_EVENTS)
        self._finder = Finder(self.nodes, self.reservations)
        self._group_placing = GroupPlacing(self.nodes, self.reservations)
        self._numbers: dict[GroupId, int] = {}
        # What has not been looked at since it changed: queues, and places where others may go now. What a held lease or
        # group changes is left for the next event, because nothing may be answered before all of them are known.
        self._untried: dict[ShapeQueue, None] = {}
        self._news: dict[Place, None] = {}
        self._handlers: dict[type, Callable[[Any, float], list[Instruction]]] = {
            NodeAdded: self._node_changed,
            DrainCancelled: self._node_changed,
            ResourceChanged: self._node_changed,
            NodeDraining: self._node_draining,
            NodeRemoved: self._node_removed,
            LeaseRequested: self._lease_requested,
            LeaseCancelled: self._lease_cancelled,
            LeaseHeld: self._lease_held,
            GroupRequested: self._group_requested,
            GroupHeld: self._group_held,
            GroupRemoved: self._group_removed,
            Tick: self._tick,
        }

    # -- the contract ----------------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order. An event of an unknown kind changes nothing."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            instructions = handler(event, now)
        else:
            instructions = self._serve(self.nodes.apply(event), now)
        if instructions or type(event) is not Tick:
            self.history.append((now, event, instructions))
        if self.nodes.holders.asked and not len(self.queues):
            self.nodes.holders.begin_episode()
        return instructions

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        """Say why the request `id` waits: what is missing, how much of it, where, and who holds it."""
        return explain_waiting(id, now, self.queues, self.nodes, self.reservations)

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held."""
        entries = [entry for queue in self.queues if not queue.of_groups for entry in queue.waiting.values()]
        entries.sort(key=lambda entry: entry.number)
        return self.nodes.snapshot(entry.request for entry in entries if isinstance(entry.request, LeaseRequest))

    def validate(self) -> None:
        """Raise AssertionError, with the last events, when an invariant is broken."""
        try:
            check(self.nodes, self.queues, self._finder, self.reservations)
        except AssertionError as broken:
            story = "\n".join(f"  {now:.3f} {event} -> {done}" for now, event, done in self.history)
            raise AssertionError(f"{broken}\nThe last {len(self.history)} events:\n{story}") from broken

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node_changed(self, event: NodeAdded | DrainCancelled | ResourceChanged, now: float) -> list[Instruction]:
        # A node that shrank can lose a soft affinity, and who wished for it may then go anywhere.
        return self._serve(self.nodes.apply(event), now, self.queues.soft(event.node))

    def _node_draining(self, event: NodeDraining, now: float) -> list[Instruction]:
        node = self.nodes.nodes.get(event.node)
        if node is not None:
            self._keep_no_longer(node, *node.bundles.values())
        self.nodes.apply(event)
        return self._serve((), now, self.queues.soft(event.node))

    def _node_removed(self, event: NodeRemoved, now: float) -> list[Instruction]:
        node = self.nodes.nodes.get(event.node)
        if node is None:
            return []
        self._keep_no_longer(node, *node.bundles.values())
        lost = {group for group, _ in node.bundles}
        self.nodes.apply(event)
        for group in sorted(lost, key=self._numbers.__getitem__):
            self._wait_again(group, now)
        return self._serve((), now, self.queues.soft(event.node))

    def _keep_no_longer(self, *places: Place) -> None:
        for place in places:
            kept = self.reservations.at(place)
            if kept is not None:
                self._news.update(dict.fromkeys(self.reservations.end(kept)))

    # -- leases ----------------------------------------------------------------------------------------------------

    def _lease_requested(self, event: LeaseRequested, now: float) -> list[Instruction]:
        request = event.request
        if request.id in self.queues or request.id in self.nodes.leases:
            return []
        queue = self.queues.join(request, now)
        return self._serve((), now, [queue] if len(queue.waiting) == 1 else ())

    def _lease_cancelled(self, event: LeaseCancelled, now: float) -> list[Instruction]:
        if event.id not in self.queues:
            return []
        self._withdraw(event.id)
        return self._serve((), now)

    def _lease_held(self, event: LeaseHeld, now: float) -> list[Instruction]:
        if event.request.id in self.queues:
            self._withdraw(event.request.id)
        self.nodes.apply(event)
        return []

    def _withdraw(self, id: LeaseId | GroupId) -> None:
        """Take a waiting request out of its queue, and keep nothing for it any longer."""
        self.queues.leave(id)
        kept = self.reservations.of(id)
        if kept is not None:
            self._news.update(dict.fromkeys(self.reservations.end(kept)))

    # -- groups ----------------------------------------------------------------------------------------------------

    def _group_requested(self, event: GroupRequested, now: float) -> list[Instruction]:
        id = event.request.id
        if id in self.nodes.groups:
            return []
        self.nodes.apply(event)
        self._numbers[id] = self.queues.arrive()
        queue = self.queues.join_group(self.nodes.groups[id], self._numbers[id], now, again=False)
        return self._serve((), now, [queue] if len(queue.waiting) == 1 else ())

    def _group_held(self, event: GroupHeld, now: float) -> list[Instruction]:
        id = event.request.id
        if id in self.nodes.groups:
            return []
        self.nodes.apply(event)
        self._numbers[id] = self.queues.arrive()
        if self.nodes.groups[id].waiting():
            self._wait_again(id, now)
        return []

    def _group_removed(self, event: GroupRemoved, now: float) -> list[Instruction]:
        group = self.nodes.groups.get(event.id)
        if group is None:
            return []
        del self._numbers[event.id]
        self._group_placing.forget(event.id)
        self._keep_no_longer(*group.bundles.values())
        inside = [id for queue in self.queues.inside.get(event.id, {}).values() for id in queue.waiting]
        for id in (*inside, *([event.id] if event.id in self.queues else [])):
            self._withdraw(id)
        return self._serve(self.nodes.apply(event), now)

    def _wait_again(self, id: GroupId, now: float) -> None:
        """Put what a group has lost in a queue, as of when the group came."""
        if id in self.queues:
            self._withdraw(id)
        self._group_placing.forget(id)
        queue = self.queues.join_group(self.nodes.groups[id], self._numbers[id], now, again=True)
        self._untried[queue] = None

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self, event: Tick, now: float) -> list[Instruction]:
        if not len(self.queues):
            return []
        for kept in self.reservations:
            if now >= kept.until:
                kept.queue.attempts += 1
                self._give_up(kept, now)
        waiting = [queue for queue in self.queues.group_queues.values() if self._group_placing.may_fit(queue)]
        oldest = heapq.nsmallest(GROUPS_A_TICK, waiting, key=lambda queue: queue.front.number)
        instructions = self._serve((), now, oldest)
        for queue in sorted(
            (queue for queue in self.queues if self._deserves(queue, now)), key=lambda x: x.front.number
        ):
            self._keep(queue, now)
        holders = self.nodes.holders
        for lease in choose_leases_to_reclaim(self.nodes, self.queues, self._finder, self.reservations, holders, now):
            instructions.append(Reclaim(lease.request.id))
        return instructions

    # -- serving those who wait ------------------------------------------------------------------------------------

    def _serve(self, freed: Iterable[Place], now: float, anew: Iterable[ShapeQueue] = ()) -> list[Instruction]:
        """Grant what fits in the places where something was freed, and try the queues `anew`; oldest front first."""
        done: list[Instruction] = []
        self._news.update(dict.fromkeys(freed))
        self._untried.update(dict.fromkeys(anew))
        while self._news or self._untried:
            for place in list(self._news) if self.reservations else ():
                kept = self.reservations.at(place)
                if kept is not None and kept.is_hopeless(place):
                    self._give_up(kept, now)
            # When nothing else has changed, there is one place where the fronts can fit.
            only = next(iter(self._news)) if len(self._news) == 1 and not self._untried else None
            fronts = self._fronts()
            while fronts:
                _, queue = heapq.heappop(fronts)
                instruction = self._serve_front(queue, only, now)
                if instruction is not None:
                    done.append(instruction)
                    if queue.waiting:
                        heapq.heappush(fronts, (queue.front.number, queue))
        return done

    def _fronts(self) -> list[tuple[int, ShapeQueue]]:
        """Return a heap of the queues whose fronts may fit now. Numbers are unique: queues are never compared."""
        found = {queue: None for queue in self._untried if queue.waiting}
        places = list(self._news)
        self._untried.clear()
        self._news.clear()
        for place in places:
            if not self.nodes.is_open(place):
                continue
            free = place.pool.available
            for queue in self.queues.near(place):
                if queue.of_groups:
                    if self._group_placing.may_fit(queue, place):
                        found[queue] = None
                    continue
                for name, units in queue.wanted.items():
                    if units > free.get(name, 0) and units:
                        break
                else:
                    if self._finder.allowed(queue, place):
                        found[queue] = None
        fronts = [(queue.front.number, queue) for queue in found]
        heapq.heapify(fronts)
        return fronts

    def _serve_front(self, queue: ShapeQueue, only: Place | None, now: float) -> Instruction | None:
        """Give the front of a queue what it waits for if it fits."""
        entry = queue.front
        served = self._place_group(entry) if queue.of_groups else self._grant(queue, entry, only)
        if served is None:
            return None
        instruction, where = served
        self._note_passed(where, entry.number, queue.wanted, now)
        if self.reservations:  # what is held now for long may make something hopeless that is kept there
            self._news.update((place, None) for place in where if self.reservations.at(place) is not None)
        return instruction

    def _grant(
        self, queue: ShapeQueue, entry: QueuedRequest, only: Place | None
    ) -> tuple[Instruction, Sequence[Place]] | None:
        request = entry.request
        assert isinstance(request, LeaseRequest)
        if only is None:
            found = self._finder.find(queue, entry)
            if found is None:
                return None
            place, allocation = found
        else:
            taken = self.reservations.take(only, queue.wanted, entry.number)
            if taken is None:
                return None
            place, allocation = only, taken
        self._withdraw(request.id)
        return self.nodes.grant(request, place, allocation), (place,)

    def _place_group(self, entry: QueuedRequest) -> tuple[Instruction, Sequence[Place]] | None:
        placed = self._group_placing.place(entry)
        if placed is None:
            return None
        self._withdraw(entry.request.id)
        bundles = self.nodes.groups[placed.id].bundles
        self._news.update((bundles[bundle.index], None) for bundle in placed.bundles)
        return placed, [self.nodes.nodes[node] for node in dict.fromkeys(bundle.node for bundle in placed.bundles)]

    def _note_passed(self, places: Iterable[Place], number: int, wanted: Amounts, now: float) -> None:
        """Tell those who came before the arrival `number` that it was served first."""
        passed = {queue: None for place in places for queue in self.queues.near(place) if queue.front.number < number}
        for queue in passed:
            if queue.note_overtaken(wanted, now) and self._deserves(queue, now):
                self._keep(queue, now)

    # -- keeping resources for the oldest --------------------------------------------------------------------------

    def _deserves(self, queue: ShapeQueue, now: float) -> bool:
        """Return whether something should be kept for the front of a queue. A group can't wait to be passed first."""
        if now < queue.rests_until or self.reservations.of(queue.front.request.id) is not None:
            return False
        return queue.starves(now) or (queue.of_groups and now - queue.front.since >= PATIENCE_SECONDS)

    def _keep(self, queue: ShapeQueue, now: float) -> None:
        """Keep what is freed in one place, or in one for each bundle, for the front of a queue."""
        if queue.of_groups:
            wants = self._group_placing.to_keep(queue)
        else:
            place = self._finder.to_keep(queue)
            wants = {place: [queue.wanted]} if place is not None else None
        if wants:
            self.reservations.keep(queue, wants, now)
        else:
            queue.rests_until = now + HOPELESS_SECONDS

    def _give_up(self, kept: Reservation, now: float) -> None:
        """End a reservation that is hopeless or too old: others get a turn."""
        kept.queue.overtaken = 0
        kept.queue.rests_until = now + OVERTAKEN_SECONDS if kept.queue.of_groups else 0.0
        self._news.update(dict.fromkeys(self.reservations.end(kept)))
