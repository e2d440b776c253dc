"""Lease workers: pass requests to the scheduler plugin and grants to workers, and end leases. In the head's loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from kernel.logs import Logger
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.head import lent_cpus
from kernel_processes.head.idle_nodes import IdleNodes
from kernel_processes.head.lent_cpus import LentCpus
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.scheduler_guard import SchedulerGuard
from kernel_spec import scheduling as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import PluginError
from kernel_spec.ids import GroupId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation


@dataclass(slots=True)
class LeaseRecord:
    """Holds one request and its lease. `holder` is None for the lease of an actor, which the head holds.

    `grants` counts the grants, so that a node's message about an earlier grant is not taken for one about the latest.
    `taken`: the head has taken the lease away, and its worker is being ended. `backlog` is the number of tasks that
    wait behind a request that waits, and `backlog_seconds` how long they are expected to take.
    """

    request: contract.LeaseRequest
    holder: ProcessRecord | None
    grant: contract.Grant | None = None
    grants: int = 0
    worker: ProcessId | None = None
    taken: bool = False
    backlog: int = 0
    backlog_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Service:
    """Holds a worker's lease, present or returned as broken, with the lease's holder and node."""

    lease: LeaseId
    holder: ProcessRecord | None
    node: NodeId


class LeaseOrders(Protocol):
    """Sends orders about the workers of leases to the nodes (see `kernel_processes.head.worker_orders`)."""

    def find(self, lease: LeaseId, record: LeaseRecord) -> None:
        """Let the node find a worker for a granted lease."""

    def drop(self, lease: LeaseId, record: LeaseRecord, broken: bool) -> None:
        """Let the node take the worker of a lease back, because the lease is over."""

    def kill(self, worker: ProcessId, reason: str) -> None:
        """End a worker whose lease is taken away."""

    def tell(self, worker: ProcessId, message: Message) -> None:
        """Tell a worker about the CPU that it has lent."""


class LeaseManager:
    """Passes requests for workers to the scheduler, and its grants as `orders` to nodes. Keeps a record of each lease.

    `on_placed(group, bundles)` is called when bundles of a placement group are placed. `end_session(reason)` is called
    once, when the scheduler raises or gives an instruction that can't be carried out. While there is a `follow`, it is
    called with each event that the scheduler has handled.
    """

    def __init__(
        self,
        scheduler: contract.Scheduler,
        clock: Callable[[], float],
        orders: LeaseOrders,
        on_placed: Callable[[GroupId, Iterable[contract.Bundle]], None],
        end_session: Callable[[str], None],
    ) -> None:
        self.scheduler = SchedulerGuard(scheduler)
        self.leases: dict[LeaseId, LeaseRecord] = {}
        self.idle = IdleNodes()
        self.follow: Callable[[contract.Event], None] | None = None
        self._cpus = LentCpus()
        self._inside: dict[GroupId, set[LeaseId]] = {}
        """Placement group to the leases in it, also those that wait."""
        self._dissolving: set[GroupId] = set()
        self._serving: dict[ProcessId, _Service] = {}
        """Kept until the end of the worker is known, because the holder of its lease waits for the cause."""
        self._clock = clock
        self._orders = orders
        self._on_placed = on_placed
        self._end_session = end_session
        self._failed = False
        self._held_back: list[contract.LeaseRequest] | None = None
        self._held_inside: dict[LeaseId, contract.LeaseHeld] = {}
        self._events: deque[contract.Event] = deque()
        self._handling = False

    def handle(self, event: contract.Event) -> None:
        """Let the scheduler decide, and carry out its instructions. Events that these cause are handled afterwards."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                event = self._events.popleft()
                self._share_cpus(self._cpus.see(event))
                self.idle.see(event, self._clock())
                for step in self._decide(event):
                    self._carry_out(step)
                if self.follow is not None:
                    self.follow(event)
        finally:
            self._handling = False

    def _carry_out(self, step: contract.Instruction) -> None:
        if isinstance(step, contract.PlaceGroup):
            self._share_cpus(self._cpus.see(step))
            self.idle.see(step, self._clock())
            self._on_placed(step.id, step.bundles)
            return
        record = self.leases.get(step.id)
        if record is None:
            return
        if isinstance(step, contract.Grant):
            record.grant = step
            record.grants += 1
            record.backlog, record.backlog_seconds = 0, 0.0
            self.idle.see(step, self._clock())
            self._orders.find(step.id, record)
            self._share_cpus(self._cpus.grant(record.request, step))
        elif isinstance(step, contract.Preempt):
            self.take(step.id, step.reason)
        elif record.holder is not None:
            record.holder.send((op.RECLAIM_LEASE, step.id))

    def _share_cpus(self, steps: Iterable[lent_cpus.Instruction]) -> None:
        for step in steps:
            record = self.leases.get(step.id)
            if record is None:
                continue
            if isinstance(step, lent_cpus.ReclaimCpu):
                if record.holder is not None:
                    record.holder.send((op.RECLAIM_LEASE, step.id))
            elif record.worker is not None:
                taken = isinstance(step, lent_cpus.CpuTaken)
                self._orders.tell(record.worker, (op.CPU_TAKEN if taken else op.GO_ON,))

    def _decide(self, event: contract.Event) -> list[contract.Instruction]:
        if self._failed:
            return []
        try:
            return self.scheduler.handle(event, self._clock())
        except PluginError as error:
            self._failed = True
            Logger("kernel.node").error("the session ends", reason=str(error))
            self._end_session(str(error))
            return []

    def add_node(self, node: NodeId, total: dict[str, float], labels: dict[str, str], devices: tuple[str, ...]) -> None:
        """The node is there."""
        self.handle(contract.NodeAdded(node, total, labels, devices))

    def request(self, request: contract.LeaseRequest, holder: ProcessRecord | None) -> None:
        """A process (or, without `holder`, an actor) wants a worker."""
        if request.id in self.leases:
            return  # A process sends it a second time after a head's death.
        self._remember(LeaseRecord(request, holder))
        if self._held_back is not None:
            self._held_back.append(request)
        else:
            self.handle(contract.LeaseRequested(request))

    def _remember(self, record: LeaseRecord) -> None:
        self.leases[record.request.id] = record
        if record.request.group is not None:
            self._inside.setdefault(record.request.group, set()).add(record.request.id)

    def hold(self) -> None:
        """Grant nothing until `go_on`, because not all leases that an earlier head granted are known yet."""
        self._held_back = []

    def go_on(self) -> None:
        """Serve the requests that were held back: every node has reported what it has."""
        waiting, self._held_back = self._held_back or [], None
        for request in waiting:
            if request.id in self.leases:
                self.handle(contract.LeaseRequested(request))

    def held(
        self, grant: contract.Grant, request: contract.LeaseRequest, grants: int, worker: ProcessId, blocked: bool
    ) -> None:
        """A lease was granted by an earlier head. Its holder is known later (`adopt`), or gone."""
        if request.id not in self.leases:
            self._remember(LeaseRecord(request, None, grant, grants, worker or None))
            if worker:
                self._serving[worker] = _Service(request.id, None, grant.node)
            if request.group is None:
                self.handle(contract.LeaseHeld(request, grant, blocked))
            else:  # Its group may have bundles on nodes that have not come back yet.
                self._held_inside[request.id] = contract.LeaseHeld(request, grant, blocked)

    def enter_groups(self) -> None:
        """Tell the scheduler which leases are held in placement groups, now that it knows the groups."""
        waiting, self._held_inside = self._held_inside, {}
        for id, held in waiting.items():
            if id in self.leases:
                self.handle(held)

    def adopt(self, callers: Mapping[ProcessId, ProcessRecord], of_actors: Container[LeaseId]) -> None:
        """Assign each lease that an earlier head granted to its holder; a lease without a holder ends."""
        for id, record in list(self.leases.items()):
            if record.grant is None or record.holder is not None:
                continue
            if not record.request.for_actor:
                record.holder = callers.get(record.request.requester)
            if record.worker is not None:
                self._serving[record.worker] = _Service(id, record.holder, record.grant.node)
            if record.holder is None and id not in of_actors:
                self.release(id, broken=True)

    def held_by(self) -> dict[ProcessRecord, list[LeaseId]]:
        """Return which process holds which leases."""
        found: dict[ProcessRecord, list[LeaseId]] = {}
        for id, record in self.leases.items():
            if record.holder is not None and record.worker is not None:
                found.setdefault(record.holder, []).append(id)
        return found

    def granted(self, id: LeaseId, grant: int) -> LeaseRecord | None:
        """Return the lease of which this is the latest grant; None when it is over, or was taken away."""
        record = self.leases.get(id)
        return record if record is not None and record.grant is not None and record.grants == grant else None

    def served(self, id: LeaseId, grant: int, worker: ProcessId) -> LeaseRecord | None:
        """A node found the worker of a grant; return its lease, None as `granted` does."""
        record = self.granted(id, grant)
        if record is not None and record.grant is not None:
            record.worker = worker
            self._serving[worker] = _Service(id, record.holder, record.grant.node)
        return record

    def worker_died(self, worker: ProcessId, cause: str, fault: int = op.DIED) -> None:
        """A worker ended, and its lease with it: tell the holder."""
        service = self._serving.pop(worker, None)
        if service is None:
            return
        record = self.leases.get(service.lease)
        if service.holder is not None and not service.holder.closed:
            fault = op.TAKEN if record is not None and record.taken and fault != op.LOST else fault
            service.holder.send(packed(op.LeasedWorkerDied(worker=worker, cause=cause, fault=fault)))
        self.release(service.lease, broken=True)

    def cancel(self, id: LeaseId) -> None:
        """A waiting request is withdrawn."""
        record = self.leases.get(id)
        if record is None:
            return
        if record.grant is not None:
            self.release(id, broken=False)
            return
        self._forget(id)
        self.handle(contract.LeaseCancelled(id))
        self._dissolve_if_empty(record.request.group)

    def release(self, id: LeaseId, broken: bool) -> None:
        """A lease is given back, or over."""
        record = self._forget(id)
        if record is None:
            return
        self._orders.drop(id, record, broken)
        if record.worker is not None and not broken:
            self._serving.pop(record.worker, None)
        if record.grant is None:
            self.handle(contract.LeaseCancelled(id))
        else:
            self.handle(contract.LeaseReleased(id))
        self._dissolve_if_empty(record.request.group)

    def take(self, id: LeaseId, reason: str) -> None:
        """Take a granted lease away at once: its worker ends, and its holder runs the tasks sent there elsewhere."""
        record = self.leases.get(id)
        if record is None or record.grant is None or record.taken:
            return
        if record.worker is not None:
            record.taken = True
            self._orders.kill(record.worker, reason)
            return
        self._orders.drop(id, record, False)
        record.grant = None
        self.handle(contract.LeaseReleased(id))
        self.handle(contract.LeaseRequested(record.request))

    def note_backlog(self, id: LeaseId, tasks: int, seconds: float) -> None:
        """So many tasks wait behind a request, and are expected to take so many seconds together."""
        record = self.leases.get(id)
        if record is None or record.grant is not None:
            return
        grows = tasks > record.backlog
        record.backlog, record.backlog_seconds = tasks, seconds
        if grows and self.follow is not None:
            self.follow(contract.LeaseRequested(record.request))

    def drop_worker(self, id: LeaseId) -> None:
        """The worker of a lease must not be used any more; its resources stay taken until `release`."""
        record = self.leases.get(id)
        if record is not None:
            self._orders.drop(id, record, True)

    def block(self, id: LeaseId, blocked: bool, asks: bool = False) -> None:
        """Note that a lease's worker waits inside `get`, or goes on; if it `asks`, tell it when its CPU is free."""
        if id in self._held_inside:
            self._held_inside[id] = replace(self._held_inside[id], blocked=blocked)
            self._share_cpus([lent_cpus.GoOn(id)] if asks else ())
        elif id in self.leases:
            if asks:  # The scheduler counts its CPU at once, so that no new lease gets it.
                self._cpus.ask(id)
            self.handle(contract.LeaseBlocked(id) if blocked else contract.LeaseUnblocked(id))

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone, and with it what it asked for and held."""
        for id in [id for id, record in self.leases.items() if record.holder is caller]:
            self.release(id, broken=True)

    def remove_node(self, node: NodeId) -> list[ProcessId]:
        """A node is gone; return its workers that served leases. Leases without a worker yet are granted elsewhere."""
        lost = {id: record for id, record in self.leases.items() if record.grant and record.grant.node == node}
        for id, record in lost.items():
            if record.worker is None:
                record.grant = None
            else:
                self._forget(id)
        self.handle(contract.NodeRemoved(node))
        for id, record in lost.items():
            if record.worker is None and id in self.leases:
                self.handle(contract.LeaseRequested(record.request))
            self._dissolve_if_empty(record.request.group)
        return [worker for worker, service in self._serving.items() if service.node == node]

    # -- placement groups ------------------------------------------------------------------------------------------

    def leases_in(self, group: GroupId) -> list[LeaseId]:
        """Return the leases in a placement group, also those that wait for it."""
        return list(self._inside.get(group, ()))

    def dissolve(self, group: GroupId) -> None:
        """A placement group is over: what it holds is free when the last lease in it is."""
        self._dissolving.add(group)
        self._dissolve_if_empty(group)

    def _dissolve_if_empty(self, group: GroupId | None) -> None:
        if group in self._dissolving and group not in self._inside:
            self._dissolving.remove(group)
            self.handle(contract.GroupRemoved(group))

    def _forget(self, id: LeaseId) -> LeaseRecord | None:
        record = self.leases.pop(id, None)
        if record is not None and record.request.group is not None:
            inside = self._inside[record.request.group]
            inside.discard(id)
            if not inside:
                del self._inside[record.request.group]
        return record

    # -- questions -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether any request waits for a grant."""
        return any(record.grant is None for record in self.leases.values())

    def explain(self, id: LeaseId | GroupId) -> str:
        """Explain why a request (of a lease or of a placement group) waits."""
        record = self.leases.get(LeaseId(id))
        if record is not None and record.grant is not None:
            if record.worker is not None:
                return "it has a worker"
            first = ", once its runtime_env is there" if record.request.environment else ""
            return f"its worker process is starting{first}"
        if self._held_back is not None:
            return "the head was started again, and waits for the earlier nodes before it grants anything"
        return self.scheduler.explain(id, self._clock())

    def tick(self) -> None:
        """Time passes."""
        self.handle(contract.Tick())

    def allocation(self, id: LeaseId | None) -> Allocation:
        """Return the resources that a lease holds."""
        record = self.leases.get(id) if id is not None else None
        return record.grant.allocation if record is not None and record.grant is not None else Allocation({})


def grant_message(id: LeaseId, record: LeaseRecord, address: str) -> Message:
    """Return the message that tells the holder of a lease about its worker."""
    assert record.grant is not None and record.worker is not None
    allocation = record.grant.allocation
    return (op.LEASE_GRANTED, id, record.worker, address, allocation.amounts, allocation.devices)
