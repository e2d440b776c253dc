"""The head of a simulated session: hands events to the scheduler and carries out its instructions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter_ns
from typing import Any, Protocol

from kernel_simulation.agenda import Agenda
from kernel_simulation.audit import Audit
from kernel_simulation.measures import Stopwatch, Tally
from kernel_spec import scheduling as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ContractError, PluginError
from kernel_spec.ids import GroupId, LeaseId, NodeId


class LeaseHolder(Protocol):
    """The party that asked for a lease, and is called when the lease changes."""

    tally: Tally

    def granted(self, lease: SimulatedLease) -> None:
        """Start the worker: the lease is granted."""

    def asked_back(self, lease: SimulatedLease) -> None:
        """Release the lease once its task is done."""

    def ended(self, lease: SimulatedLease, preempted: bool) -> None:
        """Forget the lease: its node is gone, or it was preempted."""


class GroupHolder(Protocol):
    """The party that asked for a placement group, and is called when the group changes."""

    tally: Tally

    def placed(self, group: SimulatedGroup, bundles: Iterable[contract.Bundle]) -> None:
        """Use these bundles, which have a node now."""


class SimulatedLease:
    """One lease, from request to end. `piece` is what runs on it (-1: nothing) since `begun`."""

    __slots__ = ("alive", "asked_back", "begun", "blocked", "grant", "holder", "piece", "request")

    def __init__(self, request: contract.LeaseRequest, holder: LeaseHolder) -> None:
        self.request = request
        self.holder = holder
        self.grant: contract.Grant | None = None
        self.piece = -1
        self.begun = 0.0
        self.alive = True
        self.asked_back = False
        self.blocked = False


@dataclass(slots=True, eq=False)
class SimulatedGroup:
    """One placement group, from request to removal."""

    request: contract.GroupRequest
    holder: GroupHolder
    bundles: dict[int, contract.Bundle]


class SimulatedHead:
    """Passes every event to the scheduler, one after another, and carries out what it answers.

    Raises ContractError for an answer that the contract does not allow, PluginError when the scheduler raises.
    """

    def __init__(self, make_scheduler: Callable[[], contract.Scheduler], agenda: Agenda, tick_seconds: float) -> None:
        self._make_scheduler = make_scheduler
        self.scheduler = make_scheduler()
        self.audit: Audit | None = None
        """Checks every answer when there is one."""
        self.stopwatch = Stopwatch()
        self.nodes: dict[NodeId, contract.NodeAdded] = {}
        self.draining: set[NodeId] = set()
        self.idle_since: dict[NodeId, float] = {}
        """Since when each node has nothing to do, if it has nothing."""
        self.waiting: dict[LeaseId, SimulatedLease] = {}
        self.granted: dict[LeaseId, SimulatedLease] = {}
        self.groups: dict[GroupId, SimulatedGroup] = {}
        self.waiting_groups: dict[GroupId, SimulatedGroup] = {}
        """Groups of which at least one bundle has no node."""
        self.reclaims = self.preemptions = self.events = 0
        self._agenda = agenda
        self._tick_seconds = tick_seconds
        self._ticking = False
        self._on_node: dict[NodeId, dict[LeaseId, SimulatedLease]] = {}
        self._outbox: deque[contract.Event] = deque()
        self._telling = False
        self._carry_out: Mapping[type, Callable[[Any], None]] = {
            contract.Grant: self._grant,
            contract.Reclaim: self._reclaim,
            contract.Preempt: self._preempt,
            contract.PlaceGroup: self._place_group,
        }

    # -- leases ----------------------------------------------------------------------------------------------------

    def request(self, lease: SimulatedLease) -> None:
        """Ask the scheduler for a lease."""
        self.waiting[lease.request.id] = lease
        self._tell(contract.LeaseRequested(lease.request))
        self._tick_while_waiting()

    def release(self, lease: SimulatedLease) -> None:
        """Give a lease back, or withdraw a request that waits."""
        id = lease.request.id
        lease.alive = False
        if self.waiting.pop(id, None) is not None:
            self._tell(contract.LeaseCancelled(id))
        elif id in self.granted:
            self._forget(lease)
            self._tell(contract.LeaseReleased(id))

    def block(self, lease: SimulatedLease, blocked: bool) -> None:
        """Tell the scheduler that the worker of a lease waits inside `get`, or goes on."""
        lease.blocked = blocked
        self._tell((contract.LeaseBlocked if blocked else contract.LeaseUnblocked)(lease.request.id))

    # -- placement groups ------------------------------------------------------------------------------------------

    def request_group(self, group: SimulatedGroup) -> None:
        """Ask the scheduler for a placement group."""
        self.groups[group.request.id] = self.waiting_groups[group.request.id] = group
        self._tell(contract.GroupRequested(group.request))
        self._tick_while_waiting()

    def remove_group(self, group: SimulatedGroup) -> None:
        """Remove a placement group, whose leases must have been released."""
        id = group.request.id
        self.idle_since |= {bundle.node: self._agenda.now for bundle in group.bundles.values()}
        del self.groups[id]
        self.waiting_groups.pop(id, None)
        self._tell(contract.GroupRemoved(id))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def add_node(self, node: contract.NodeAdded) -> None:
        """Add a node, or change its total resources."""
        self.nodes[node.node] = node
        self._on_node.setdefault(node.node, {})
        self.idle_since.setdefault(node.node, self._agenda.now)
        self._tell(node)

    def drain_node(self, node: NodeId) -> None:
        """Let a node leave: its holders are asked for their leases, and no others are granted there."""
        self.draining.add(node)
        self._tell(contract.NodeDraining(node))
        for lease in list(self._on_node[node].values()):
            lease.holder.asked_back(lease)

    def cancel_drain(self, node: NodeId) -> None:
        """Let a node that was to leave stay."""
        if node in self.draining:
            self.draining.discard(node)
            self._tell(contract.DrainCancelled(node))

    def used_nodes(self) -> set[NodeId]:
        """Return the nodes that have leases or bundles."""
        in_groups = {bundle.node for group in self.groups.values() for bundle in group.bundles.values()}
        return in_groups.union(node for node, leases in self._on_node.items() if leases)

    def is_used(self, node: NodeId) -> bool:
        """Return whether there are leases or bundles on a node."""
        in_groups = (bundle.node for group in self.groups.values() for bundle in group.bundles.values())
        return bool(self._on_node[node]) or node in in_groups

    def set_resource(self, node: NodeId, name: str, quantity: float) -> None:
        """Set the total of a custom resource of a node."""
        before = self.nodes[node]
        total = {**before.total, name: quantity}
        self.nodes[node] = contract.NodeAdded(node, total, before.labels, before.device_resources)
        self._tell(contract.ResourceChanged(node, name, quantity))

    def remove_node(self, node: NodeId) -> None:
        """Remove a node, and every lease and bundle on it."""
        del self.nodes[node]
        del self.idle_since[node]
        self.draining.discard(node)
        lost = list(self._on_node.pop(node).values())
        for lease in lost:
            lease.alive = False
            del self.granted[lease.request.id]
        for id, group in self.groups.items():
            for bundle in [bundle for bundle in group.bundles.values() if bundle.node == node]:
                self.waiting_groups[id] = group
                del group.bundles[bundle.index]
        # Holders hear of it before anything is carried out that comes of it, and the scheduler before what they want.
        self._outbox.append(contract.NodeRemoved(node))
        self._telling = True
        for lease in lost:
            lease.holder.ended(lease, False)
        self._telling = False
        self._tell(self._outbox.popleft())
        self._tick_while_waiting()

    # -- the head itself -------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Start again with an empty scheduler, which is told what there is, as a restarted head does.

        The scheduler is told all that is held before anything that makes it decide: first leases outside of groups,
        then whole groups, then groups that lack bundles, and at last the requests that wait.
        """
        held, waiting = list(self.granted.values()), list(self.waiting.values())
        groups = sorted(self.groups.values(), key=lambda group: group.request.id in self.waiting_groups)
        self.scheduler = self._make_scheduler()
        for node in self.nodes.values():
            self._tell(node)
        for id in sorted(self.draining):
            self._tell(contract.NodeDraining(id))
        self._replay_leases(lease for lease in held if lease.request.group is None)
        for group in groups:
            if group.bundles:
                self._tell(contract.GroupHeld(group.request, tuple(group.bundles.values())))
        self._replay_leases(lease for lease in held if lease.request.group is not None)
        for group in groups:
            if not group.bundles:
                self._tell(contract.GroupRequested(group.request))
        for lease in waiting:
            self._tell(contract.LeaseRequested(lease.request))

    def _replay_leases(self, leases: Iterable[SimulatedLease]) -> None:
        for lease in leases:
            assert lease.grant is not None
            self._tell(contract.LeaseHeld(lease.request, lease.grant, lease.blocked))

    def explain(self, id: LeaseId | GroupId) -> contract.Reason:
        """Return why a request waits, in the scheduler's words."""
        return self.scheduler.explain(id, self._agenda.now)

    def validate(self) -> None:
        """Let the scheduler check itself. Raises PluginError, with what it says, when an invariant is broken."""
        try:
            self.scheduler.validate()
        except AssertionError as error:
            raise PluginError(f"{self._where()} does not hold its own invariants: {error}") from error

    # -- between the scheduler and the others ----------------------------------------------------------------------

    def _tell(self, event: contract.Event) -> None:
        """Hand an event over and carry out the answer. What comes of that is told afterwards, in its order."""
        if self._telling:
            self._outbox.append(event)
            return
        self._telling = True
        try:
            self._decide(event)
            while self._outbox:
                self._decide(self._outbox.popleft())
        finally:
            self._telling = False

    def _decide(self, event: contract.Event) -> None:
        self.events += 1
        if self.audit is not None:
            self.audit.note(event)
        now = self._agenda.now
        begun = perf_counter_ns()
        try:
            instructions = self.scheduler.handle(event, now)
        except Exception as error:
            raise PluginError(f"{self._where()} raised {type(error).__name__} for {event}: {error}") from error
        self.stopwatch.add(type(event), perf_counter_ns() - begun)
        for step in instructions:
            act = self._carry_out.get(type(step))
            if act is None:
                raise ContractError(f"{self._where()} answered {event} with {step!r}, which is no instruction")
            act(step)

    def _where(self) -> str:
        return f"scheduler {self.scheduler.name!r}, at {self._agenda.now:.3f} s and event {self.events},"

    def _grant(self, grant: contract.Grant) -> None:
        lease = self.waiting.pop(grant.id, None)
        if lease is None or grant.node not in self.nodes:
            what = "a lease that nobody waits for" if lease is None else "a node that is not there"
            raise ContractError(f"{self._where()} returned {grant}: {what}")
        if self.audit is not None:
            self.audit.check_grant(lease.request, grant, self._where())
        lease.grant = grant
        self.granted[grant.id] = self._on_node[grant.node][grant.id] = lease
        tally = lease.holder.tally
        tally.grants += 1
        tally.local_grants += grant.node in lease.request.locality
        lease.holder.granted(lease)

    def _reclaim(self, reclaim: contract.Reclaim) -> None:
        lease = self.granted.get(reclaim.id)
        if lease is not None:
            if lease.request.for_actor:
                raise ContractError(f"{self._where()} returned {reclaim} for the lease of an actor")
            self.reclaims += 1
            lease.holder.asked_back(lease)

    def _preempt(self, preempt: contract.Preempt) -> None:
        lease = self.granted.get(preempt.id)
        if lease is None:
            return
        if not lease.request.preemptible:
            raise ContractError(f"{self._where()} returned {preempt} for a lease that is not preemptible")
        self.preemptions += 1
        lease.alive = False
        self._forget(lease)
        self._tell(contract.LeaseReleased(preempt.id))
        lease.holder.ended(lease, True)

    def _place_group(self, place: contract.PlaceGroup) -> None:
        group = self.waiting_groups.pop(place.id, None)
        if group is None:
            raise ContractError(f"{self._where()} returned {place} for a group that does not wait")
        if self.audit is not None:
            self.audit.check_group(group.request, tuple(group.bundles.values()), place, self._where())
        for bundle in place.bundles:
            if bundle.node not in self.nodes or bundle.index in group.bundles:
                raise ContractError(f"{self._where()} returned {place}: bundle {bundle.index} has no place there")
            group.bundles[bundle.index] = bundle
        if len(group.bundles) != len(group.request.bundles):
            wanted = len(group.request.bundles)
            raise ContractError(f"{self._where()} returned {place}, and {len(group.bundles)} of {wanted} bundles lie")
        group.holder.placed(group, place.bundles)

    def _forget(self, lease: SimulatedLease) -> None:
        assert lease.grant is not None
        del self.granted[lease.request.id]
        del self._on_node[lease.grant.node][lease.request.id]
        self.idle_since[lease.grant.node] = self._agenda.now

    def _tick_while_waiting(self) -> None:
        if not self._ticking and (self.waiting or self.waiting_groups):
            self._ticking = True
            self._agenda.after(self._tick_seconds, self._tick, None, background=True)

    def _tick(self, _: None) -> None:
        self._ticking = False
        if self.waiting or self.waiting_groups:
            self._tell(contract.Tick())
            self._tick_while_waiting()
