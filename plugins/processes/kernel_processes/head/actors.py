"""Actors from creation to death. A pure state machine: events in, instructions out.

PENDING_CREATION --lease granted--> STARTING --constructed--> ALIVE
ALIVE --process died, restarts left--> RESTARTING --lease granted--> STARTING ...
any --constructor raised | killed | out of scope | owner ended | no restarts left--> DEAD

An actor is known, and has its name, from the moment of its creation; a worker is requested when the arguments of its
constructor are ready. A dead actor is dead for all processes at once, although its own process may still run exit
handlers; what that process holds is free when it has ended.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Collection, Container

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.actor_ends import no_handles
from kernel_processes.head.actor_records import (
    ALIVE,
    DEAD,
    NOBODY,
    PENDING,
    RESTARTING,
    STARTING,
    ActorRecord,
    AskLease,
    Construct,
    DropLease,
    EndWorker,
    Instruction,
    PublishActor,
)
from kernel_processes.protocol import memory_faults
from kernel_spec.errors import InternalError, NameTakenError
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId

KEPT_DEAD = 1000
"""The number of dead actors that are remembered, for late callers and for `kernel status`."""


class ActorTable:
    """Holds every actor of the session, and answers each event with instructions."""

    def __init__(self) -> None:
        self.actors: dict[ActorId, ActorRecord] = {}
        self.names: dict[tuple[str, str], ActorId] = {}
        self._by_worker: dict[ProcessId, ActorId] = {}
        self._by_lease: dict[LeaseId, ActorId] = {}
        self._dead: deque[ActorId] = deque()
        self.changed: set[ActorId] = set()
        """Those that changed since the shell last wrote them down."""
        self._history: deque[str] = deque(maxlen=200)

    def find(self, namespace: str, name: str) -> ActorRecord | None:
        """Return the living actor of that name."""
        actor = self.names.get((namespace, name))
        return self.actors[actor] if actor is not None else None

    def living_jobs(self) -> set[JobId]:
        """Return the jobs of all actors that are not dead."""
        return {record.job for record in self.actors.values() if record.state != DEAD}

    # -- events ----------------------------------------------------------------------------------------------------

    def create(self, record: ActorRecord) -> None:
        """A process created an actor. Raises NameTakenError when a living actor has its name."""
        if record.id in self.actors:
            raise InternalError(f"actor {record.id.hex()} was created twice")
        name, namespace = record.description["name"], record.description["namespace"]
        if (namespace, name) in self.names:
            raise NameTakenError(
                f"an actor named {name!r} lives in namespace {namespace!r}; use get_actor({name!r}), "
                "options(get_if_exists=True), or another name"
            )
        record.restarts_left = record.description["max_restarts"]
        self.actors[record.id] = record
        if name:
            self.names[(namespace, name)] = record.id
        self._note(record, "created")

    def arguments_ready(self, actor: ActorId, creation: bytes, failure: tuple[int, bytes] | None) -> list[Instruction]:
        """The arguments of the constructor are there, or one of them has failed."""
        record = self.actors.get(actor)
        if record is None or record.state != PENDING or record.creation:
            return []
        if failure is not None:
            record.failure = failure
            return self._die(record, "an argument of its constructor failed")
        record.creation = creation
        self.changed.add(actor)
        return [AskLease(actor)]

    def lease_asked(self, actor: ActorId, lease: LeaseId) -> None:
        """The shell asked the scheduler on the actor's behalf."""
        self.actors[actor].lease = lease
        self.changed.add(actor)
        self.actors[actor].rests = False
        self._by_lease[lease] = actor

    def lease_granted(self, lease: LeaseId, worker: ProcessId) -> list[Instruction]:
        """A worker is there."""
        record = self._of_lease(lease)
        if record is not None and record.worker == worker:
            return []  # A process sends it a second time after a head's death.
        if record is None or record.state not in (PENDING, RESTARTING):
            return [DropLease(lease)]
        record.state = STARTING
        record.worker = worker
        record.note_worker(worker)
        self._by_worker[worker] = record.id
        self._note(record, f"starts on {worker.hex()[:8]}")
        return [Construct(record.id)]

    def lease_failed(self, lease: LeaseId, failure: tuple[int, bytes], cause: str) -> list[Instruction]:
        """No worker can be had (its environment can't be set up)."""
        record = self._of_lease(lease)
        if record is None:
            return []
        record.failure = failure
        return self._die(record, cause)

    def place_lost(self, lease: LeaseId, cause: str) -> list[Instruction]:
        """Where an actor runs, or was to run, is taken away for good."""
        record = self._of_lease(lease)
        return self._die(record, cause) if record is not None else []

    def constructed(self, actor: ActorId, failure: tuple[int, bytes] | None) -> list[Instruction]:
        """The constructor returned, or raised."""
        record = self.actors.get(actor)
        if record is None or record.state != STARTING:
            return []
        if failure is not None:
            record.failure = failure
            return self._die(record, "its constructor raised")
        record.state = ALIVE
        self._note(record, "is alive")
        instructions: list[Instruction] = [PublishActor(actor)]
        if record.ending:
            instructions.append(EndWorker(record.worker, record.ending, drain=True))
        return instructions

    def worker_died(self, worker: ProcessId, cause: str, fault: int = op.DIED) -> list[Instruction]:
        """A process ended; if it was an actor, restart it (after a rest, if for memory) or declare it dead."""
        actor = self._by_worker.pop(worker, None)
        if actor is None:
            return []
        record = self.actors[actor]
        if record.state == DEAD:
            return []
        instructions = self._release(record)
        record.worker = NOBODY
        if record.ending:
            return [*instructions, *self._die(record, record.ending)]
        if record.state == RESTARTING:  # The actor was killed to be restarted.
            return [*instructions, AskLease(actor)]
        record.crashed = True
        if fault != op.DIED and record.restarts_left == 0:
            error = memory_faults.actor_error(record.label, record.id.hex(), cause, fault, record.attempt)
            record.failure = (op.SYSTEM_ERROR, pickle.dumps(error))
        instructions += self._restart(record, cause)
        if record.state != RESTARTING:
            return instructions
        seconds = memory_faults.rest_seconds(record.attempt) if fault != op.DIED else 0.0
        record.rests = seconds > 0
        return [*instructions, AskLease(actor, seconds)]

    def out_of_scope(self, actor: ActorId) -> list[Instruction]:
        """The last handle is gone, and with it the last call: end it, once it is constructed."""
        record = self.actors.get(actor)
        if record is None or record.state == DEAD or record.ending:
            return []
        reason = no_handles(record.description["name"])
        if record.state == RESTARTING:
            return self._die(record, reason)
        record.ending = reason
        self.changed.add(actor)
        self._free_name(record)
        return [EndWorker(record.worker, reason, drain=True)] if record.state == ALIVE else []

    def kill(self, actor: ActorId, no_restart: bool) -> list[Instruction]:
        """`kernel.kill`: end it now; without `no_restart` it may restart, once its process is gone."""
        record = self.actors.get(actor)
        if record is None or record.state == DEAD:
            return []
        if no_restart or record.ending:
            record.crashed = False
            return self._die(record, "it was killed by kernel.kill(actor)", kindly=False)
        if record.state in (PENDING, RESTARTING):
            return []
        cause = "it was killed by kernel.kill(actor, no_restart=False)"
        record.crashed = False
        instructions = self._restart(record, cause)
        end = EndWorker(record.worker, cause, drain=False, kindly=False)
        return [end, *instructions] if record.worker else instructions

    def actor_of(self, worker: ProcessId) -> ActorId | None:
        """Return the actor that lives in a process."""
        return self._by_worker.get(worker)

    def ends_itself(self, worker: ProcessId, reason: str) -> None:
        """An actor is about to leave by itself: it must not restart."""
        actor = self._by_worker.get(worker)
        if actor is not None:
            self.actors[actor].ending = reason
            self.changed.add(actor)

    # -- after the death of a head ---------------------------------------------------------------------------------

    def restore(self, record: ActorRecord) -> None:
        """Take in what an earlier head wrote down, as it was then."""
        self.actors[record.id] = record
        if record.state == DEAD:
            self._dead.append(record.id)
            return
        name, namespace = record.description["name"], record.description["namespace"]
        if name and not record.ending:
            self.names[(namespace, name)] = record.id
        if record.worker:
            self._by_worker[record.worker] = record.id
        if record.lease is not None:
            self._by_lease[record.lease] = record.id
        self._note(record, "restored")

    @property
    def leases(self) -> Collection[LeaseId]:
        """The leases that actors ask for or hold."""
        return self._by_lease.keys()

    def resume(
        self, workers: Container[ProcessId], leases: Container[LeaseId], owners: Container[ProcessId]
    ) -> list[Instruction]:
        """Carry on after the death of a head, once every living node has reported: actors that no node has are lost."""
        instructions: list[Instruction] = []
        for record in [record for record in self.actors.values() if record.state != DEAD]:
            if record.worker and record.worker not in workers:
                instructions += self.worker_died(record.worker, "its node was lost while the head was away")
            elif not record.worker and record.creation and record.lease not in leases:
                self._forget_lease(record)
                instructions.append(AskLease(record.id))
            elif record.state == STARTING:
                instructions.append(Construct(record.id))  # The earlier head may have ordered it, or not.
            elif record.state == ALIVE and record.ending:
                instructions.append(EndWorker(record.worker, record.ending, drain=True))
        for owner in {record.owner for record in self.actors.values() if record.state != DEAD}:
            if owner not in owners:
                instructions += self.owner_died(owner)
        return instructions

    def owner_died(self, owner: ProcessId) -> list[Instruction]:
        """A process is gone: so are the actors it owned, but for detached ones."""
        instructions: list[Instruction] = []
        for record in list(self.actors.values()):
            if record.owner != owner or record.state == DEAD:
                continue
            if not record.description["detached"]:
                instructions += self._die(record, "the process that created it ended")
            elif not record.creation:
                instructions += self._die(record, "its creator ended before its constructor's arguments were there")
        return instructions

    # -- inside ----------------------------------------------------------------------------------------------------

    def _restart(self, record: ActorRecord, cause: str) -> list[Instruction]:
        """Restart if that is allowed. The shell asks for a lease when the process is gone."""
        if record.restarts_left == 0:
            return self._die(record, cause)
        if record.restarts_left > 0:
            record.restarts_left -= 1
        record.attempt += 1
        record.state = RESTARTING
        record.cause = cause
        self._note(record, f"restarts: {cause}")
        return [PublishActor(record.id)]

    def _die(self, record: ActorRecord, cause: str, kindly: bool = True) -> list[Instruction]:
        instructions: list[Instruction]
        if record.worker:
            # The process's resources are freed when it has ended, not before.
            instructions = [EndWorker(record.worker, cause, drain=False, kindly=kindly)]
            self._by_worker.pop(record.worker, None)
            self._forget_lease(record)
            record.worker = NOBODY
        else:
            instructions = self._release(record)
        record.state = DEAD
        record.cause = cause
        record.creation = b""
        self._free_name(record)
        self._dead.append(record.id)
        self._note(record, f"is dead: {cause}")
        return [*instructions, PublishActor(record.id)]

    def forget_dead(self) -> None:
        """Let go of those that died longest ago. After the instructions about them were carried out."""
        while len(self._dead) > KEPT_DEAD:
            actor = self._dead.popleft()
            del self.actors[actor]
            self.changed.add(actor)

    def _free_name(self, record: ActorRecord) -> None:
        key = (record.description["namespace"], record.description["name"])
        if self.names.get(key) == record.id:
            del self.names[key]

    def _release(self, record: ActorRecord) -> list[Instruction]:
        lease = self._forget_lease(record)
        return [DropLease(lease)] if lease is not None else []

    def _forget_lease(self, record: ActorRecord) -> LeaseId | None:
        lease, record.lease = record.lease, None
        if lease is not None:
            self._by_lease.pop(lease, None)
        return lease

    def _of_lease(self, lease: LeaseId) -> ActorRecord | None:
        actor = self._by_lease.get(lease)
        return self.actors.get(actor) if actor is not None else None

    def _note(self, record: ActorRecord, what: str) -> None:
        self.changed.add(record.id)
        self._history.append(f"{record.id.hex()[:12]} {record.label} {what}")

    def validate(self) -> None:
        """Raise AssertionError, with the history, when an invariant is broken."""
        story = "\n".join(self._history)
        for key, actor in self.names.items():
            record = self.actors[actor]
            assert record.state != DEAD, f"the name {key} belongs to a dead actor\n{story}"
            assert key == (record.description["namespace"], record.description["name"]), f"{key} is misfiled\n{story}"
        for worker, actor in self._by_worker.items():
            assert self.actors[actor].worker == worker, f"worker {worker.hex()} is not its actor's\n{story}"
        for lease, actor in self._by_lease.items():
            assert self.actors[actor].lease == lease, f"lease {lease.hex()} is not its actor's\n{story}"
        for record in self.actors.values():
            if record.state in (ALIVE, STARTING):
                assert self._by_worker.get(record.worker) == record.id, f"{record.label} has no worker\n{story}"
            elif record.state != RESTARTING:  # An actor killed to be restarted still has its old worker.
                assert not record.worker, f"{record.label} is {record.state} and has a worker\n{story}"
            if record.state == DEAD:
                assert record.lease is None, f"dead {record.label} holds a lease\n{story}"
            elif record.creation:
                assert record.rests or record.lease is not None, (
                    f"{record.label} has neither lease nor request\n{story}"
                )
