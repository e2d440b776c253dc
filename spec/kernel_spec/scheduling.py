"""The scheduler contract: who gets a worker, where, and when.

A scheduler is a pure state machine. The node agent calls `handle` with one event at a time, from one thread, and
carries out the instructions that come back. A scheduler does no I/O, starts no thread and reads no clock (`now`
is passed in, in seconds on a monotonic clock). It may raise only for a broken invariant; the agent then reports
the plugin by name and ends the session, because no decision is safe after that. Nothing of it must survive a
crash: after a restart the agent replays the nodes, leases and requests that are still alive.

A process asks for a lease on a worker of some shape, then sends it any number of tasks of that shape. So a
scheduler decides per lease, not per task, and its cost is not on the path of a task.

On conflict: a driver (exactly one is chosen by name). On absence the kernel's own reference is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, Amounts

# -- what is asked for ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """One process's wish for one worker.

    `wanted` is in exact units (`kernel_spec.resources`). `strategy` is the user's `scheduling_strategy` as given
    ("DEFAULT", "SPREAD" or a strategy object turned into a mapping). `hints` carries what users pass as
    `scheduling_hints={...}`: free-form, for schedulers that know more words than the kernel (`priority`, ...).
    `for_actor` leases last for an actor's life.
    """

    id: LeaseId
    job: JobId
    requester: ProcessId
    wanted: Amounts
    name: str = ""
    strategy: str | Mapping[str, Any] = "DEFAULT"
    hints: Mapping[str, Any] = field(default_factory=dict)
    for_actor: bool = False
    environment: str = ""


# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node is there, or its totals or labels changed. `total` is in plain quantities."""

    node: NodeId
    total: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    device_resources: tuple[str, ...] = ("GPU",)


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node is gone, and every lease on it with it."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A custom resource of a node was set at run time (zero deletes it)."""

    node: NodeId
    name: str
    quantity: float


@dataclass(frozen=True, slots=True)
class LeaseRequested:
    """A process wants a worker."""

    request: LeaseRequest


@dataclass(frozen=True, slots=True)
class LeaseCancelled:
    """A waiting request is withdrawn. Unknown ids are ignored: the grant may have crossed it on the way."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    """A granted lease ended: given back, or its worker or holder died."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class LeaseBlocked:
    """The worker waits inside `get`: lend its CPU (never its devices) to others."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class LeaseUnblocked:
    """The worker runs on: its CPU counts again, at once, even when that overcommits for a while."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. Sent about ten times a second while requests wait, for policies that age."""


Event = (
    NodeAdded
    | NodeRemoved
    | ResourceChanged
    | LeaseRequested
    | LeaseCancelled
    | LeaseReleased
    | LeaseBlocked
    | LeaseUnblocked
    | Tick
)

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """Give the request a worker on `node`, holding `allocation`."""

    id: LeaseId
    node: NodeId
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Ask the holder of a granted lease to give it back once the tasks already sent are done.

    Sent when somebody else deserves the resources. It is a wish: the answer is a later `LeaseReleased`. Actor
    leases are never reclaimed.
    """

    id: LeaseId


Instruction = Grant | Reclaim

# -- questions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a request waits: a code for programs, a sentence for people.

    Codes: `infeasible` (no node could ever hold it), `busy` (resources exist but are taken), `behind` (others are
    first in line), `granted`, `unknown`.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    """What a scheduler holds, for `kernel status` and for tests. Amounts are in exact units."""

    total: Mapping[NodeId, Amounts]
    available: Mapping[NodeId, Amounts]
    waiting: Sequence[LeaseRequest]
    granted: Mapping[LeaseId, Grant]


@runtime_checkable
class Scheduler(Protocol):
    """Decides which waiting request gets which resources. See the module's text for thread and failure rules."""

    name: str

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Take one event in and return what to do, in order. Never blocks; cost should not grow with the queue."""
        ...

    def explain(self, id: LeaseId, now: float) -> Reason:
        """Say why the request `id` waits. Called rarely, may be slow."""
        ...

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of what is held. Called rarely, may be slow."""
        ...

    def validate(self) -> None:
        """Raise AssertionError, with the history that led to it, when an invariant is broken."""
        ...
