"""The scheduler contract: decide which request gets a worker, on which node, and when.

A scheduler is a pure state machine, one for the whole session: it sees every node. The head calls `handle` with one
event at a time, from one thread, and carries out the instructions that come back. A scheduler does no I/O, starts no
thread and reads no clock (`now` is passed in, in seconds on a monotonic clock). It may raise only for a broken
invariant; the head then reports the plugin by name and ends the session, because no decision is safe after that.
Nothing of it must survive a crash: a head that was restarted replays the nodes (`NodeAdded`), the placement groups and
leases that are held (`GroupHeld`, `LeaseHeld`) and the requests that still wait. An event of a kind that a scheduler
does not know must change nothing: later releases may add some.

A process asks for a lease on a worker of some shape, then sends it any number of tasks of that shape. So a
scheduler decides per lease, not per task, and its cost is not on the path of a task.

A placement group is a set of bundles of resources that are reserved together, all or none, before anything runs in
them. So two gangs never wait for each other, each holding half: a group that does not fit whole holds nothing. Leases
whose request names a group take from its bundles and never from the nodes; they wait while the bundles do. A blocked
lease in a bundle lends its CPU to others in that bundle.

The parts that all schedulers share are here: `kernel_spec.placement` parses strategies, `kernel_spec.packing` fits
groups, `kernel_spec.ledger` keeps account of the resources that leases hold, `kernel_spec.finding` finds places among
many nodes, and `kernel_spec.reasons` explains why a request waits.

On conflict: a driver (exactly one is chosen by name). On absence the kernel's own reference is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, Amounts

NOWHERE = NodeId(b"")
"""The origin of a request that does not come from a node."""

# -- what is asked for ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request of one process for one worker.

    `wanted` is in exact units (`kernel_spec.resources`). `strategy` is the user's `scheduling_strategy` as given
    ("DEFAULT", "SPREAD" or a strategy object turned into a mapping, see `kernel_spec.placement`). `hints` carries
    what users pass as `scheduling_hints={...}`: free-form, for schedulers that know more words than the kernel
    (`priority`, ...). `for_actor` leases last for an actor's life. `origin` is the node where the requester runs.
    `locality` says how many bytes of the first task's large arguments lie on which node. `group` names the placement
    group whose bundle number `bundle` (-1: any) it is to run in. What runs on a `preemptible` lease can be run again,
    so a scheduler may take it away (see `Preempt`).
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
    origin: NodeId = NOWHERE
    locality: Mapping[NodeId, int] = field(default_factory=dict)
    group: GroupId | None = None
    bundle: int = -1
    preemptible: bool = False


PACK = "PACK"
SPREAD = "SPREAD"
STRICT_PACK = "STRICT_PACK"
STRICT_SPREAD = "STRICT_SPREAD"
GROUP_STRATEGIES = (PACK, SPREAD, STRICT_PACK, STRICT_SPREAD)
"""Strategies for the bundles of a group: on few nodes or on many; STRICT: on a single node, or each on its own."""


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """One placement group: bundles of resources (exact units), by number, and the strategy for placing them.

    `labels` are conditions on the labels of each bundle's node, by number (`kernel_spec.placement`); empty: any node.
    """

    id: GroupId
    job: JobId
    bundles: Sequence[Amounts]
    strategy: str = PACK
    name: str = ""
    hints: Mapping[str, Any] = field(default_factory=dict)
    origin: NodeId = NOWHERE
    labels: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """A placed bundle of a placement group: its node, and the resources that it holds there."""

    index: int
    node: NodeId
    allocation: Allocation


# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node was added, or its totals or labels changed. `total` is in plain quantities."""

    node: NodeId
    total: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    device_resources: tuple[str, ...] = ("GPU",)


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node left or died. Its leases and bundles are lost, and the bundles' groups wait for new places.

    A lease inside a group ends with its node, not with its group.
    """

    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A node will leave: grant no new lease on it or in its bundles, and place no bundle there.

    Its leases go on until `NodeRemoved`, or until `DrainCancelled`. A later `NodeAdded` changes only totals and labels.
    """

    node: NodeId


@dataclass(frozen=True, slots=True)
class DrainCancelled:
    """A node that was to leave stays: grant leases and place bundles there again. Nodes that stay ignore it."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A custom resource of a node was set at run time (zero deletes it)."""

    node: NodeId
    name: str
    quantity: float


@dataclass(frozen=True, slots=True)
class LeaseRequested:
    """A process requests a worker."""

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
    """The worker goes on: its CPU counts again, at once, even when that overcommits the node for a while."""

    id: LeaseId


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """A lease that was granted before this scheduler began: count it. Answered by nothing, more may follow.

    Its node (and group) were added before. What it holds may be more than the node has now; then the node is
    overcommitted until enough has ended.
    """

    request: LeaseRequest
    grant: Grant
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class GroupRequested:
    """A placement group of one or more bundles was requested; answered by `PlaceGroup` when all of it fits."""

    request: GroupRequest


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    """A waiting or placed group was removed: its resources are free. Unknown ids are ignored.

    Leases inside it were released before, and requests that waited for it cancelled; remaining ones end with it.
    """

    id: GroupId


@dataclass(frozen=True, slots=True)
class GroupHeld:
    """A placement group that was placed before this scheduler began, with the bundles whose nodes are still there.

    Answered by nothing, because more that is held may follow. Missing bundles are placed again, as after `NodeRemoved`,
    with the first event of another kind.
    """

    request: GroupRequest
    bundles: Sequence[Bundle]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. Sent about ten times a second while requests or groups wait, for policies that age."""


Event = (
    NodeAdded
    | NodeRemoved
    | ResourceChanged
    | LeaseRequested
    | LeaseCancelled
    | LeaseReleased
    | LeaseBlocked
    | LeaseUnblocked
    | LeaseHeld
    | GroupRequested
    | GroupRemoved
    | GroupHeld
    | NodeDraining
    | DrainCancelled
    | Tick
)

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """Give the request a worker on `node`, holding `allocation`; in a placement group, of its bundle `bundle`."""

    id: LeaseId
    node: NodeId
    allocation: Allocation
    bundle: int = -1


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Ask the holder of a granted lease to give it back once the tasks already sent are done.

    Sent when another request should get the resources. The holder may take its time: a later `LeaseReleased` is the
    answer. Leases of actors are never reclaimed.
    """

    id: LeaseId


@dataclass(frozen=True, slots=True)
class Preempt:
    """End the worker of a granted, `preemptible` lease now; its task is run again later, on any node.

    Sent when a request of higher rank can't wait. It is carried out at once; `LeaseReleased` follows.
    """

    id: LeaseId
    reason: str


@dataclass(frozen=True, slots=True)
class PlaceGroup:
    """These bundles of a group are reserved now: at first all of them, later those that a lost node held."""

    id: GroupId
    bundles: tuple[Bundle, ...]


Instruction = Grant | Reclaim | Preempt | PlaceGroup

# -- questions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a request waits: a code for programs, a sentence for people.

    Codes: `infeasible` (no node could ever hold it), `busy` (resources exist but are taken, or the placement group it
    is to run in waits), `behind` (others are first in line), `granted` (of a group: all of it is placed), `unknown`.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class SchedulerSnapshot:
    """The state of a scheduler, for `kernel status` and for tests. Amounts are in exact units.

    Resources of bundles are not available on their nodes. `groups` has the placed bundles; a group that has lost some
    is in `waiting_groups` as well.
    """

    total: Mapping[NodeId, Amounts]
    available: Mapping[NodeId, Amounts]
    waiting: Sequence[LeaseRequest]
    granted: Mapping[LeaseId, Grant]
    groups: Mapping[GroupId, Sequence[Bundle]] = field(default_factory=dict)
    waiting_groups: Sequence[GroupRequest] = ()


@runtime_checkable
class Scheduler(Protocol):
    """Decides which waiting request gets which resources. See the module's text for thread and failure rules."""

    name: str

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Handle one event and return instructions, in order. Must not block; cost should not grow with the queue."""
        ...

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        """Explain why the request `id` of a lease or a group waits. Called rarely, may be slow."""
        ...

    def snapshot(self) -> SchedulerSnapshot:
        """Return a copy of the state. Called rarely, may be slow."""
        ...

    def validate(self) -> None:
        """Raise AssertionError, with the history that led to it, when an invariant is broken."""
        ...
