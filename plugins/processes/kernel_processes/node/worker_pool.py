"""Keep the workers of a node: which start, which are idle, which are leased. A pure state machine.

Workers are kept apart by *key*: the job they serve and the environment they run in, so that one program never sees
another's modules, variables or working directory.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from kernel_engine.messages.process_messages import DIED
from kernel_processes.node.failed_starts import FailedStarts
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import LeaseId, ProcessId

STARTING = "starting"
IDLE = "idle"
LEASED = "leased"
ACTOR = "actor"
ENDING = "ending"

Key = tuple[bytes, str]
"""Job id and environment."""


class LeasedWork(NamedTuple):
    """Describes the work of a lease: the task that asked for it first, or the actor; its owner; the memory it reserves.

    `repeatable`: its work can be run again. `grant` counts the grants of a lease, which may be taken away and given
    again: the head must know for which grant a worker was found. `devices` names the devices of the lease, if any.
    """

    name: str = ""
    owner: bytes = b""
    memory: int = 0
    store: int = 0
    repeatable: bool = False
    grant: int = 0
    devices: str = ""


NO_WORK = LeasedWork()


@dataclass(slots=True)
class WorkerRecord:
    """Holds the state of one worker process. `pid` is 0 until it was forked; `peer` is set once it has registered.

    `work` is the work of its lease, which began at `leased_at`. `actor` is the class of the actor that it is,
    `restarts` the restarts that this has left. `asks`: it has what it waited for, and waits for its CPU.
    `cause` says why it ends, or could not be forked; `fault` says what that means for its work. `devices` are those of
    its leases, None before the first.
    """

    id: ProcessId
    key: Key
    state: str = STARTING
    pid: int = 0
    peer: Any = None
    lease: LeaseId | None = None
    work: LeasedWork = NO_WORK
    leased_at: float = 0.0
    blocked: bool = False
    asks: bool = False
    actor: str = ""
    restarts: int = 0
    idle_since: float = 0.0
    cause: str = ""
    fault: int = DIED
    retiring: bool = False
    devices: str | None = None

    def may_use(self, devices: str) -> bool:
        """Return whether its libraries, which may have begun to use what they saw first, can use these devices."""
        return self.devices is None or self.devices == devices


class UnservedLease(NamedTuple):
    """Holds a lease that gets no worker, and the number of its grant."""

    lease: LeaseId
    grant: int


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Fork a worker for this key."""

    worker: ProcessId
    key: Key


@dataclass(frozen=True, slots=True)
class Assign:
    """Have this worker serve this lease."""

    worker: ProcessId
    lease: LeaseId


@dataclass(frozen=True, slots=True)
class RefuseLeases:
    """Refuse these leases: one worker after another did not come up (`reason`), the last as its record says."""

    leases: tuple[UnservedLease, ...]
    worker: WorkerRecord
    reason: str


Replacement = StartWorker | RefuseLeases
"""The instructions that follow when a worker could not be started."""
Instruction = Assign | Replacement


class WorkerPool:
    """Assigns workers to leases. `new_id` makes process ids."""

    def __init__(self, new_id: Any) -> None:
        self.workers: dict[ProcessId, WorkerRecord] = {}
        self._new_id = new_id
        self._idle: dict[Key, deque[ProcessId]] = {}
        self._waiting: dict[Key, deque[LeaseId]] = {}
        self._work: dict[LeaseId, LeasedWork] = {}
        """That of the leases that wait."""
        self.held: dict[LeaseId, bytes] = {}
        """The description of each lease, waiting or with a worker, for a head that takes over."""
        self._starting: dict[Key, int] = {}
        self._failed_starts: dict[Key, FailedStarts] = {}
        """Of the keys of which no worker has come up since."""

    def prestart(self, key: Key) -> list[StartWorker]:
        """Have one worker of this key ready before it is asked for."""
        if self._starting.get(key) or self._idle.get(key):
            return []
        return [self._start(key)]

    def want(
        self, lease: LeaseId, key: Key, now: float, work: LeasedWork = NO_WORK, held: bytes = b""
    ) -> list[Instruction]:
        """A lease was granted for `work`: give it an idle worker, or start one. `held` is for a later head, if any."""
        if held:
            self.held[lease] = held
        idle = self._idle.get(key, ())
        for id in reversed(idle):
            worker = self.workers[id]
            if not worker.retiring and worker.may_use(work.devices):
                idle.remove(id)  # type: ignore[union-attr]
                return [self._assign(worker, lease, work, now)]
        waiting = self._waiting.setdefault(key, deque())
        waiting.append(lease)
        self._work[lease] = work
        if self._starting.get(key, 0) < len(waiting):
            return [self._start(key)]
        return []

    def unwant(self, lease: LeaseId) -> None:
        """A lease is over: it waits for no worker, and no later head is told of it."""
        self.held.pop(lease, None)
        self._work.pop(lease, None)
        for waiting in self._waiting.values():
            if lease in waiting:
                waiting.remove(lease)

    def registered(self, id: ProcessId, peer: Any, now: float) -> list[Instruction]:
        """A worker is up."""
        worker = self.workers[id]
        worker.peer = peer
        if worker.state != STARTING:
            return []  # It was ordered to end before it came up.
        self._starting[worker.key] -= 1
        self._failed_starts.pop(worker.key, None)
        return self._free(worker, now)

    def released(self, id: ProcessId, now: float) -> list[Instruction]:
        """A worker's lease is over and it can be used again."""
        worker = self.workers.get(id)
        if worker is None or worker.state != LEASED:
            return []
        worker.lease = None
        worker.work = NO_WORK
        return self._free(worker, now)

    def becomes_actor(self, id: ProcessId) -> None:
        """A leased worker is an actor from now on."""
        self.workers[id].state = ACTOR

    def ends(self, id: ProcessId, cause: str) -> WorkerRecord | None:
        """Note that a worker was ordered to end: it gets no more leases."""
        worker = self.workers.get(id)
        if worker is not None:
            self._leave_state(worker)
            worker.state = ENDING
            worker.cause = worker.cause or cause
        return worker

    def died(self, id: ProcessId, killed_at: float | None = None) -> tuple[WorkerRecord | None, list[Replacement]]:
        """A worker is gone, by a kill at that time or by itself; start another if leases wait for one."""
        worker = self.workers.pop(id, None)
        if worker is None:
            return None, []
        if worker.state == STARTING and (worker.pid or worker.cause):  # Otherwise its template died first.
            self._failed_starts.setdefault(worker.key, FailedStarts("worker")).add(killed_at)
        self._leave_state(worker)
        if worker.lease is not None:
            self.held.pop(worker.lease, None)
        key, instructions = worker.key, list[Replacement]()
        failed = self._failed_starts.get(key)
        if failed is None or not failed.enough:
            missing = len(self._waiting.get(key, ())) - self._starting.get(key, 0)
            instructions += [self._start(key) for _ in range(missing)]
        elif given_up := self._take_unserved(key):
            instructions.append(RefuseLeases(tuple(given_up), worker, str(failed)))
        self._forget_unused(key)
        return worker, instructions

    def could_not_start(self, id: ProcessId) -> list[UnservedLease]:
        """A worker could not even be started; return the leases that get none, because no other one starts for them."""
        worker = self.workers.pop(id)
        self._leave_state(worker)
        given_up = self._take_unserved(worker.key)
        self._forget_unused(worker.key)
        return given_up

    def of_lease(self, lease: LeaseId) -> WorkerRecord | None:
        """Return the worker that serves a lease."""
        return next((worker for worker in self.workers.values() if worker.lease == lease), None)

    def environments(self) -> set[str]:
        """Return the environments in which workers run or start."""
        return {worker.key[1] for worker in self.workers.values()}

    def waiting_leases(self, key: Key) -> list[LeaseId]:
        """Return the leases that wait for a worker of this key."""
        return list(self._waiting.get(key, ()))

    def to_retire(self, now: float, keep: int, after: float) -> list[WorkerRecord]:
        """Return idle workers beyond `keep` that were idle for `after` seconds."""
        idle = [w for w in self.workers.values() if w.state == IDLE and not w.retiring]
        old = sorted((w for w in idle if now - w.idle_since > after), key=lambda w: w.idle_since)
        chosen = old[: max(0, len(idle) - keep)]
        for worker in chosen:
            worker.retiring = True
            worker.idle_since = now
        return chosen

    def stays(self, worker: WorkerRecord) -> None:
        """A worker that was asked to retire is still needed."""
        worker.retiring = False

    def validate(self) -> None:
        """Raise AssertionError when the books do not add up."""
        for key, count in self._starting.items():
            actual = sum(1 for w in self.workers.values() if w.key == key and w.state == STARTING)
            assert count == actual, f"{count} workers said to be starting, {actual} are"
        listed = [id for idle in self._idle.values() for id in idle]
        assert len(set(listed)) == len(listed), "a worker is listed as idle twice"
        assert set(listed) == {w.id for w in self.workers.values() if w.state == IDLE}, "idle workers are not listed"
        for key, waiting in self._waiting.items():
            ending = sum(1 for w in self.workers.values() if w.key == key and w.state == ENDING)
            assert len(waiting) <= self._starting.get(key, 0) + ending, "more leases wait than workers start"
        keys = {worker.key for worker in self.workers.values()}
        for books in (self._idle, self._waiting, self._starting, self._failed_starts):
            assert keys.issuperset(books), "a key is kept that has no workers"  # type: ignore[arg-type]
        waits = {lease for waiting in self._waiting.values() for lease in waiting}
        assert waits == self._work.keys(), "work is kept of leases that do not wait, or is missing"
        assert self.held.keys() <= waits | {w.lease for w in self.workers.values()}, "a lease is held that is over"
        for worker in self.workers.values():
            assert (worker.lease is not None) == (worker.state in (LEASED, ACTOR)) or worker.state == ENDING

    def _take_unserved(self, key: Key) -> list[UnservedLease]:
        """Take out, and return, the leases that came last and for which no worker starts."""
        waiting = self._waiting.get(key, deque())
        taken = [waiting.pop() for _ in range(len(waiting) - self._starting.get(key, 0))]
        for lease in taken:
            self.held.pop(lease, None)
        return [UnservedLease(lease, self._work.pop(lease).grant) for lease in taken]

    def _forget_unused(self, key: Key) -> None:
        """Forget the failures of a key for later requests, and a key that has no workers at all."""
        if not self._starting.get(key):
            self._failed_starts.pop(key, None)
        if not any(worker.key == key for worker in self.workers.values()):
            for books in (self._idle, self._waiting, self._starting):
                books.pop(key, None)  # type: ignore[attr-defined]

    def _leave_state(self, worker: WorkerRecord) -> None:
        if worker.state == STARTING:
            self._starting[worker.key] -= 1
        elif worker.state == IDLE:
            self._idle[worker.key].remove(worker.id)

    def _start(self, key: Key) -> StartWorker:
        id = ProcessId(self._new_id())
        self.workers[id] = WorkerRecord(id, key)
        self._starting[key] = self._starting.get(key, 0) + 1
        return StartWorker(id, key)

    def _assign(self, worker: WorkerRecord, lease: LeaseId, work: LeasedWork, now: float) -> Assign:
        worker.work = work
        worker.leased_at = now
        worker.devices = work.devices
        worker.state = LEASED
        worker.lease = lease
        return Assign(worker.id, lease)

    def _free(self, worker: WorkerRecord, now: float) -> list[Instruction]:
        waiting = self._waiting.get(worker.key, deque())
        for lease in waiting:
            if worker.may_use(self._work[lease].devices):
                waiting.remove(lease)
                return [self._assign(worker, lease, self._work.pop(lease), now)]
        worker.state = IDLE
        worker.idle_since = now
        self._idle.setdefault(worker.key, deque()).append(worker.id)
        return []
