"""The record of one actor on the head, and the instructions that `kernel_processes.head.actors` gives about it."""

from __future__ import annotations

from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ActorId, JobId, LeaseId, ProcessId

PENDING = "PENDING_CREATION"
STARTING = "STARTING"
ALIVE = "ALIVE"
RESTARTING = "RESTARTING"
DEAD = "DEAD"

NOBODY = ProcessId(b"")
KEPT_WORKERS = 10
"""The number of an actor's latest processes that are remembered, for `kernel logs`."""


@dataclass(slots=True)
class ActorRecord:
    """Holds the state of one actor.

    `description` comes from its creator, `creation` is for the worker (opaque, empty until it arrives). `worker` is its
    process while it has one; `workers` are its latest processes, also after its end. While it `rests` before a restart,
    no lease is requested for it. `crashed`: its last process ended without an order to end.
    """

    id: ActorId
    job: JobId
    owner: ProcessId
    description: dict[str, Any]
    creation: bytes = b""
    state: str = PENDING
    worker: ProcessId = NOBODY
    workers: tuple[ProcessId, ...] = ()
    lease: LeaseId | None = None
    attempt: int = 0
    restarts_left: int = 0
    cause: str = ""
    failure: tuple[int, bytes] | None = None
    ending: str = ""
    rests: bool = False
    crashed: bool = False

    def note_worker(self, worker: ProcessId) -> None:
        """Remember a process of the actor, at most KEPT_WORKERS of them. They are a tuple because actors are many."""
        self.workers = (*self.workers, worker)[-KEPT_WORKERS:]

    @property
    def label(self) -> str:
        """The actor as error messages and listings name it."""
        name = self.description["name"]
        return f"{self.description['class_name']}{f' {name!r}' if name else ''}"


@dataclass(frozen=True, slots=True)
class AskLease:
    """Ask the scheduler for a worker for this actor, after a pause in seconds."""

    actor: ActorId
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DropLease:
    """Withdraw the actor's request for a lease, or give the granted lease back."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Construct:
    """Tell the worker to become the actor."""

    actor: ActorId


@dataclass(frozen=True, slots=True)
class EndWorker:
    """End the actor's process; with `drain` after the calls it has, and without running anything if not `kindly`."""

    worker: ProcessId
    reason: str
    drain: bool
    kindly: bool = True


@dataclass(frozen=True, slots=True)
class PublishActor:
    """Send the actor's new state to all its subscribers."""

    actor: ActorId


Instruction = AskLease | DropLease | Construct | EndWorker | PublishActor
