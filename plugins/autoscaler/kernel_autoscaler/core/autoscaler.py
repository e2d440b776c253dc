"""Decide which machines a cluster gets, and which it gives back. A pure state machine: events in, instructions out.

The shell (or a simulation) observes the cluster, calls the provider and carries out what comes back. It has to write
the state (`plain`) into its journal before it carries out a `MakeMachines`, so that a restart finds the token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_autoscaler.core import events
from kernel_autoscaler.core.bins import Need, whole_devices
from kernel_autoscaler.core.circuits import Circuits
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.machines import AGAIN_SECONDS, DRAINING, RUNNING, STARTING, TERMINATING, Machine, Machines
from kernel_autoscaler.core.plan import Market, Plan, Planner, Unmet, needs_of, needs_of_group
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.core.snapshot import ALIVE, NodeView, Snapshot
from kernel_autoscaler.core.snapshot import DRAINING as NODE_DRAINING
from kernel_autoscaler.core.spare_machines import SpareMachines
from kernel_autoscaler.core.supply import supply_of
from kernel_spec.providers import UNKNOWN
from kernel_spec.resources import describe
from kernel_spec.scheduling import STRICT_SPREAD

BY_HAND = "it was drained by hand"
_SETTLE_SECONDS = 10.0
"""Seconds after which a drain that the cluster does not show has failed, or was cancelled by hand."""


class Autoscaler:
    """Scales one cluster. `kinds` are those of its provider; the tokens of its orders begin with `name`."""

    def __init__(self, kinds: Sequence[Kind], settings: Settings, name: str) -> None:
        self.kinds = {kind.name: kind for kind in kinds}
        """The kinds by name, with no more resources than nodes of them have had."""
        self.settings = settings
        self.machines = Machines()
        self.circuits = Circuits()
        self._spare = SpareMachines()
        self.unmet: list[Unmet] = []
        """What got no machine in the latest plan, and why."""
        self.spent = 0.0
        """What all machines have cost so far, and the part of it that was spent on idle ones."""
        self.spent_idle = 0.0
        self.stopping = False
        self._name = name
        self._nodes: dict[str, NodeView] = {}
        """The node of each machine that has joined, by the machine's id."""
        self._counted_at: float | None = None
        self._unmet_since: float | None = None
        self._unmet_pieces = 0
        self._empty_lists = 0

    # -- the machine -----------------------------------------------------------------------------------------------

    def handle(self, event: events.Event, now: float) -> list[events.Instruction]:
        """Take one event in and return what to do, in order."""
        self._count_costs(now)
        match event:
            case events.Observed(snapshot):
                return self._observed(snapshot, now)
            case events.Listed(machines):
                return self._listed(machines, now)
            case events.Created(token, ids):
                return self._created(token, ids, now)
            case events.CreateFailed():
                return self._create_failed(event, now)
            case events.TerminateFailed(ids):
                return self._terminate_failed(ids, now)
            case events.InterruptionAnnounced():
                return self._interrupted(event, now)
            case events.StopAll():
                self.stopping = True
                return [*self._end([*self.machines.machines.values()], "the cluster ends", now), events.ListMachines()]

    @property
    def is_finished(self) -> bool:
        """Whether the cluster has ended and two lists in a row were empty."""
        return self.stopping and not self.machines.machines and not self.machines.orders and self._empty_lists >= 2

    @property
    def price(self) -> float:
        """What the machines cost per hour now."""
        return sum(self._cost(machine.kind) for machine in self.machines.machines.values())

    def _cost(self, kind: str) -> float:
        return self.kinds[kind].cost if kind in self.kinds else 0.0

    def _count_costs(self, now: float) -> None:
        hours = 0.0 if self._counted_at is None else max(0.0, now - self._counted_at) / 3600
        self._counted_at = now
        for id, machine in self.machines.machines.items():
            self.spent += hours * self._cost(machine.kind)
            node = self._nodes.get(id)
            if node is not None and node.idle_seconds is not None:
                self.spent_idle += hours * self._cost(machine.kind)

    # -- what the provider says ------------------------------------------------------------------------------------

    def _created(self, token: str, ids: Sequence[str], now: float) -> list[events.Instruction]:
        order = self.machines.created(token, ids, now)
        if order is None:
            return [events.ListMachines()]  # Nobody waits for them any more: the list says what is there.
        if len(ids) < order.count:
            said = f"{len(ids)} of {order.count} were made"
            self.circuits.failed(order.kind, "capacity", said, None, now)
        return self._end(self._made_by(token), "the cluster ends", now) if self.stopping else []

    def _made_by(self, token: str) -> list[Machine]:
        return [machine for machine in self.machines.machines.values() if machine.token == token]

    def _create_failed(self, event: events.CreateFailed, now: float) -> list[events.Instruction]:
        lost = event.code == UNKNOWN
        order = self.machines.lose(event.token) if lost else self.machines.drop(event.token)
        if order is None:
            return []
        self.circuits.failed(order.kind, event.code, event.text, event.retry_after, now)
        if lost and self.settings.repeats and not self.stopping:
            return [events.MakeMachines(order.kind, order.count, order.token, "its outcome is not known")]
        return [events.ListMachines()] if lost else [events.LookAgain(0.0)]

    def _terminate_failed(self, ids: Iterable[str], now: float) -> list[events.Instruction]:
        for id in ids:
            machine = self.machines.machines.get(id)
            if machine is not None and machine.state == TERMINATING:
                machine.since = min(machine.since, now - AGAIN_SECONDS / 2)  # The next attempt comes sooner.
        return [events.ListMachines()]

    def _listed(self, listed: Sequence[Any], now: float) -> list[events.Instruction]:
        joined = {id: node.id for id, node in self._nodes.items()}
        strangers = self.machines.listed(listed, joined, now)
        done = self._end(strangers, "nobody has asked for it", now)
        failed: set[str] = set()
        for one in listed:
            machine = self.machines.machines.get(one.id)
            if machine is not None and one.state == "failed" and machine.state != TERMINATING:
                if machine.kind not in failed:  # Machines of one order fail for one reason, most likely.
                    self.circuits.failed(machine.kind, UNKNOWN, one.problem or "a machine has failed", None, now)
                failed.add(machine.kind)
                done += self._end([machine], one.problem or "the provider says that it has failed", now)
        if self.stopping:
            self._empty_lists = 0 if listed else self._empty_lists + 1
            done += self._end(self.machines.live(), "the cluster ends", now)
        return done

    def _interrupted(self, event: events.InterruptionAnnounced, now: float) -> list[events.Instruction]:
        machine = self.machines.machines.get(event.id)
        if machine is None or machine.state == TERMINATING:
            return []
        machine.interrupted = True
        node = self._nodes.get(event.id)
        if node is None:
            return self._end([machine], event.reason, now)
        self.machines.enter(machine, DRAINING, now, event.reason)
        return [events.Drain(node.id, event.reason, event.seconds), events.LookAgain(0.0)]

    # -- what the cluster says -------------------------------------------------------------------------------------

    def _observed(self, snapshot: Snapshot, now: float) -> list[events.Instruction]:
        living = [node for node in snapshot.nodes if node.state in (ALIVE, NODE_DRAINING)]
        self._nodes = {node.provider_id: node for node in living if node.provider_id}
        done = self._follow_machines(now)
        if self.stopping:
            return done
        if self._is_quiet(snapshot):
            self.unmet, self._unmet_since = [], None
            return done
        plan = self._plan(snapshot, now)
        self.unmet = plan.unmet
        for id in plan.keep:
            machine = self._machine_of(id)
            if machine is not None:
                self.machines.enter(machine, RUNNING, now)
                done.append(events.KeepNode(id, "it is needed again"))
        done += self._buy(plan, snapshot, now)
        return done + self._call_off(plan, now) + self._give_back(plan, now)

    def _is_quiet(self, snapshot: Snapshot) -> bool:
        """Return whether there is nothing to plan: nothing waits or starts, and no node was idle for long enough."""
        if snapshot.shapes or snapshot.groups or snapshot.asked or any(kind.minimum for kind in self.kinds.values()):
            return False
        limit = self.settings.idle_seconds
        idle = any(node.idle_seconds is not None and node.idle_seconds >= limit for node in self._nodes.values())
        machines = self.machines.machines.values()
        return not idle and not any(machine.interrupted or machine.state == STARTING for machine in machines)

    def _follow_machines(self, now: float) -> list[events.Instruction]:
        """Note which machines have joined, left or are late."""
        done: list[events.Instruction] = []
        for machine in list(self.machines.machines.values()):
            node = self._nodes.get(machine.id)
            if machine.state == TERMINATING:
                if now - machine.since >= AGAIN_SECONDS:
                    done += self._still_there(machine, now)
            elif node is None:
                done += self._without_node(machine, now)
            elif machine.state == STARTING:
                machine.node = node.id
                self._learn(machine.kind, node)
                self.machines.enter(machine, RUNNING, now)
                self.circuits.worked(machine.kind)
            elif machine.state == RUNNING and node.state == NODE_DRAINING:
                self.machines.enter(machine, DRAINING, now, BY_HAND)
            elif machine.state == DRAINING and node.state == ALIVE and now - machine.since >= _SETTLE_SECONDS:
                self.machines.enter(machine, RUNNING, now)
        return done

    def _learn(self, kind: str, node: NodeView) -> None:
        """A node has joined: if it has less than its kind promised, so will the next ones."""
        if kind in self.kinds:
            self.kinds[kind] = self.kinds[kind].at_most(node.total)

    def _still_there(self, machine: Machine, now: float) -> list[events.Instruction]:
        """End a machine once more, unless its node has come back: that has to be empty first."""
        node = self._nodes.get(machine.id)
        if node is None or self.stopping:
            return self._end([machine], machine.why, now)
        machine.node = node.id
        self.machines.enter(machine, RUNNING, now)
        return []

    def _without_node(self, machine: Machine, now: float) -> list[events.Instruction]:
        if machine.state == DRAINING:
            return self._end([machine], f"its node has left: {machine.why}", now)
        if machine.state == RUNNING:
            return self._end([machine], "its node is gone", now)
        kind = self.kinds.get(machine.kind)
        usual = self.settings.join_factor * kind.boot_seconds if kind is not None else 0.0
        if now - machine.since < max(usual, self.settings.join_seconds):
            return []
        said = f"it has not joined within {now - machine.since:.0f} s"
        if self.circuits.open(machine.kind, now) is None:  # What several machines suffer at once has one reason.
            self.circuits.failed(machine.kind, UNKNOWN, f"a machine was made, but {said}", None, now)
        return self._end([machine], said, now)

    def _machine_of(self, node: str) -> Machine | None:
        return next((machine for machine in self.machines.machines.values() if machine.node == node), None)

    # -- the plan --------------------------------------------------------------------------------------------------

    def _plan(self, snapshot: Snapshot, now: float) -> Plan:
        settings = self.settings
        ours = {machine.node: machine for machine in self.machines.live() if machine.node}
        removable = {
            node.id: node.idle_seconds is not None
            for node in snapshot.nodes
            if node.id in ours and ours[node.id].state == RUNNING
        }
        leaving = [
            id for id, one in ours.items() if one.state == DRAINING and not one.interrupted and one.why != BY_HAND
        ]
        supply = supply_of(snapshot.nodes, removable, leaving, self.machines, self.kinds)
        planner = Planner(supply.free, supply.leaving, supply.whole, self._market(now))
        for group in snapshot.groups:
            if group.strategy == STRICT_SPREAD and group.placed:
                planner.keep_apart(group.id, group.placed.values())
        needs = needs_of(snapshot.shapes, settings.backlog_seconds, settings.devices)
        needs += self._needs_of_interrupted(snapshot)
        planner.serve(needs, [needs_of_group(group, settings.devices) for group in snapshot.groups])
        planner.serve_asked(
            [
                Need(whole_devices(bundle, settings.devices), label=f"asked for in advance ({describe(bundle)})")
                for bundle in snapshot.asked
            ]
        )
        for kind in self.kinds.values():
            missing = kind.minimum - self.machines.count(kind.name) - planner.bought(kind.name)
            if missing > 0:
                planner.serve_minimum(kind.name, missing)
        return planner.finish()

    def _needs_of_interrupted(self, snapshot: Snapshot) -> list[Need]:
        """Return what runs on nodes that will be taken away: it needs a place elsewhere."""
        found = []
        for node in snapshot.nodes:
            machine = self.machines.machines.get(node.provider_id)
            if machine is not None and machine.interrupted:
                used = {name: units - node.available.get(name, 0) for name, units in node.total.items()}
                held = {name: units for name, units in used.items() if units > 0}
                if held:
                    found.append(Need(held, label=f"what runs on node {node.id[:8]}, which will be taken away"))
        return found

    def _market(self, now: float) -> Market:
        closed = {}
        for name in self.kinds:
            circuit = self.circuits.open(name, now)
            if circuit is not None:
                closed[name] = f"{circuit.text} ({circuit.code}); it is tried again in {circuit.until - now:.0f} s"
        nodes, price = self.machines.count(), self._committed()
        return Market(
            [kind for kind in self.kinds.values()],
            lambda kind, bought: 0 if kind in closed else self._room(kind, bought, nodes, price),
            closed,
            {name: text for name in self.kinds if (text := self.circuits.latest(name))},
        )

    def _committed(self) -> float:
        orders = sum(order.count * self._cost(order.kind) for order in self.machines.orders.values())
        return orders + sum(self._cost(machine.kind) for machine in self.machines.live())

    def _room(self, name: str, bought: Mapping[str, int], nodes: int, price: float) -> float:
        """Return how many more machines of a kind there may be, beside those that this plan buys already."""
        kind, settings = self.kinds[name], self.settings
        room = math.inf
        if kind.maximum is not None:
            room = kind.maximum - self.machines.count(name) - bought.get(name, 0)
        if settings.maximum_nodes is not None:
            room = min(room, settings.maximum_nodes - nodes - sum(bought.values()))
        if settings.maximum_price is not None and kind.cost > 0:
            spent = price + sum(self._cost(other) * count for other, count in bought.items())
            room = min(room, math.floor((settings.maximum_price - spent) / kind.cost + 1e-9))
        return max(0.0, room)

    def _buy(self, plan: Plan, snapshot: Snapshot, now: float) -> list[events.Instruction]:
        """Order what the plan buys, once the demand has stopped growing, or has grown for long enough."""
        if not plan.buy:
            self._unmet_since = None
            return []
        settings = self.settings
        pieces = sum(shape.requests + shape.backlog for shape in snapshot.shapes) + len(snapshot.groups)
        if self._unmet_since is None:
            self._unmet_since, self._unmet_pieces = now, pieces
        since = now - self._unmet_since
        if since < settings.burst_seconds:
            return [events.LookAgain(settings.burst_seconds - since)]
        grows, self._unmet_pieces = pieces > self._unmet_pieces, pieces
        if grows and since < settings.burst_limit_seconds:
            return [events.LookAgain(settings.burst_seconds)]
        self._unmet_since = None
        done: list[events.Instruction] = []
        for name, count in plan.buy.items():
            order = self.machines.order(name, count, self._name, now)
            done.append(events.MakeMachines(name, count, order.token, self._reason(snapshot)))
        return done

    def _reason(self, snapshot: Snapshot) -> str:
        waiting = sum(shape.requests + shape.backlog for shape in snapshot.shapes)
        parts = [f"{waiting} requests and tasks wait"] if waiting else []
        parts += [f"{len(snapshot.groups)} placement groups wait"] if snapshot.groups else []
        parts += [f"{len(snapshot.asked)} bundles were asked for"] if snapshot.asked else []
        return ", ".join(parts) or "there are to be so many at least"

    # -- giving back -----------------------------------------------------------------------------------------------

    def _call_off(self, plan: Plan, now: float) -> list[events.Instruction]:
        """End machines that have not joined, and that nothing has needed for as long as makes a node idle."""
        spare = {}
        for name, count in plan.spare.items():
            kind = self.kinds.get(name)
            spare[name] = min(count, self.machines.count(name) - (kind.minimum if kind is not None else 0))
        self._spare.see(spare, now)
        done: list[events.Instruction] = []
        for name, count in self._spare.for_longer_than(self.settings.idle_seconds, now).items():
            starting = [one for one in self.machines.machines.values() if one.kind == name and one.state == STARTING]
            starting.sort(key=lambda machine: (-machine.made_at, machine.id))
            done += self._end(starting[:count], "it has not joined, and is not needed any more", now)
        return done

    def _give_back(self, plan: Plan, now: float) -> list[events.Instruction]:
        """Drain nodes that were idle for long and on which the plan has put nothing, the most expensive first."""
        if plan.buy:
            return []
        idle = []
        for machine in self.machines.live():
            node = self._nodes.get(machine.id)
            if machine.state == RUNNING and node is not None and node.id in plan.untouched:
                seconds = node.idle_seconds
                if seconds is not None and seconds >= self.settings.idle_seconds and not node.is_head:
                    idle.append((machine, node, seconds))
        idle.sort(key=lambda one: (-self._cost(one[0].kind), -one[2], one[0].id))
        done: list[events.Instruction] = []
        for machine, node, seconds in idle:
            kind = self.kinds.get(machine.kind)
            settled = sum(one.kind == machine.kind and one.state == RUNNING for one in self.machines.live())
            if kind is not None and settled <= kind.minimum:
                continue
            why = f"it was idle for {seconds:.0f} s"
            self.machines.enter(machine, DRAINING, now, why)
            done.append(events.Drain(node.id, why))
        return done

    def _end(self, machines: Iterable[Machine], why: str, now: float) -> list[events.Instruction]:
        ended = list(machines)
        for machine in ended:
            self.machines.enter(machine, TERMINATING, now, why)
        return [events.Terminate(tuple(machine.id for machine in ended), why)] if ended else []

    # -- journal ---------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return the state as plain values, for a journal."""
        return {
            "machines": self.machines.plain(),
            "circuits": self.circuits.plain(),
            "spent": self.spent,
            "spent_idle": self.spent_idle,
            "stopping": self.stopping,
        }

    def restore(self, plain: Mapping[str, Any]) -> list[events.Instruction]:
        """Take what `plain` returned. Return what to do first, as nobody knows what became of what was on its way."""
        self.machines.restore(plain["machines"])
        self.circuits.restore(plain["circuits"])
        self.spent, self.spent_idle, self.stopping = plain["spent"], plain["spent_idle"], plain["stopping"]
        again: list[events.Instruction] = []
        if self.settings.repeats and not self.stopping:
            again = [
                events.MakeMachines(one.kind, one.count, one.token, "it may not have been carried out")
                for one in self.machines.orders.values()
            ]
        return [*again, events.ListMachines()]
