"""The messages between the head and the agents of its nodes, in order on each link.

Messages of a process to the head pass through its agent, packed into `FROM_PROCESS`, and the answers back in
`TO_PROCESS`: those inner messages are the ones of `kernel_engine.messages.process_messages`. A message that is sent for
every lease is a plain tuple, described beside its number; all others are classes (see
`kernel_engine.messages.named_messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_engine.messages.message_fields import MessageFields
from kernel_engine.messages.named_messages import Message, numbered
from kernel_spec.ids import JobId, LeaseId, NodeId, ProcessId

TO_HEAD = "agent -> head"
TO_AGENT = "head -> agent"

# -- for every lease -----------------------------------------------------------------------------------------------

FROM_PROCESS = 103
"""agent -> head: process id, message. A process says this to the head."""
WORKER_FOUND = 104
"""agent -> head: lease id, which grant of it, worker id. This worker serves the lease."""
LEASE_BLOCKED = 107
"""agent -> head: lease id, whether its worker waits inside get, whether that asks first for its CPU. One that waits
gives up its CPU; one that asks for it goes on after GO_ON."""
TO_PROCESS = 121
"""head -> agent: process id, message. The head says this to a process."""
FIND_WORKER = 124
"""head -> agent: lease id, job id, environment, work (the fields of `LeasedWork`), what `GrantedBefore` tells the
next head. Give the lease a worker."""
DROP_WORKER = 125
"""head -> agent: lease id, broken, whether its holder lives. Use its worker again, or (broken) end it."""

# -- agent to head -------------------------------------------------------------------------------------------------


@numbered(101, TO_HEAD)
class ProcessJoined(MessageFields):
    """A process has joined, and may send messages from now on. `environment` is the key of the one that it runs in."""

    process: ProcessId
    role: str
    pid: int
    address: str
    job: JobId
    environment: str
    details: Mapping[str, Any]


@numbered(102, TO_HEAD)
class ProcessLeft(MessageFields):
    """The connection of a process is closed."""

    process: ProcessId


@numbered(105, TO_HEAD)
class LeaseUnserved(MessageFields):
    """There will be no worker for this `grant` of a lease. `error` is a pickled KernelError."""

    lease: LeaseId
    grant: int
    error: bytes


@numbered(106, TO_HEAD)
class WorkerDied(MessageFields):
    """A worker has died; `cause` is the reason for people. `fault` says what that means (see `process_messages`)."""

    worker: ProcessId
    pid: int
    cause: str
    fault: int


@numbered(108, TO_HEAD)
class AskAnswered(MessageFields):
    """The answer to `AskProcess` or `AskNode`; `value` is None if there is none."""

    number: int
    value: Any


@numbered(109, TO_HEAD)
class LifeCycleEvents(MessageFields):
    """Life cycle events: kind, state, id, seconds since the epoch, and detail of each."""

    events: list[tuple[str, str, bytes, float, dict[str, Any]]]


@numbered(110, TO_HEAD)
class WorkerCalls(MessageFields):
    """The worker has run these calls, as its `CallTrace.new_calls` returns them."""

    worker: ProcessId
    calls: list[Any]


@numbered(111, TO_HEAD)
class LinesWritten(MessageFields):
    """A worker has written lines, and its drivers may be on other nodes."""

    job: JobId
    pid: int
    name: str
    stream: str
    lines: list[str]


@numbered(112, TO_HEAD)
class GrantedBefore(MessageFields):
    """A head before this one granted a lease. `held` is its pickled request, grant and count of grants.

    `worker` is empty if it has none yet, `blocked` says whether it waits inside get.
    """

    held: bytes
    worker: ProcessId
    blocked: bool


@numbered(113, TO_HEAD)
class EndSession(MessageFields):
    """End the whole session, everywhere."""

    reason: str


@numbered(114, TO_HEAD)
class WantPackage(MessageFields):
    """Send what of this package's archive begins at `offset` bytes."""

    digest: str
    offset: int


@numbered(115, TO_HEAD)
class PluginFault(MessageFields):
    """Tell every program of the session what a plugin did on that node."""

    text: str


# -- head to agent -------------------------------------------------------------------------------------------------


@numbered(122, TO_AGENT)
class DescribeJob(MessageFields):
    """The pickled surroundings of a job's workers. Sent before the first lease of the job there."""

    job: JobId
    surroundings: bytes


@numbered(123, TO_AGENT)
class DescribeEnvironment(MessageFields):
    """The pickled description of an environment. Sent before the first lease of the environment there."""

    key: str
    description: bytes


@numbered(126, TO_AGENT)
class ConstructActor(MessageFields):
    """Give a worker the message that makes it an actor of a class, which may be restarted `restarts` times."""

    worker: ProcessId
    class_name: str
    restarts: int
    message: Message


@numbered(127, TO_AGENT)
class StopWorker(MessageFields):
    """End a worker. `drain` says whether it may finish its calls, `kindly` whether it runs exit handlers."""

    worker: ProcessId
    reason: str
    drain: bool
    kindly: bool


@numbered(128, TO_AGENT)
class KillWorker(MessageFields):
    """End a worker at once."""

    worker: ProcessId
    reason: str


@numbered(129, TO_AGENT)
class JobEnded(MessageFields):
    """The job is over: end its workers."""

    job: JobId


@numbered(130, TO_AGENT)
class ProcessesGone(MessageFields):
    """Processes of another node are gone: nothing of them is needed any more.

    `place` is that node's gateway if the whole node is gone, else empty.
    """

    processes: list[ProcessId]
    place: str


@numbered(131, TO_AGENT)
class AskProcess(MessageFields):
    """Call a method of a process, and send what it returns as the `AskAnswered` of this number."""

    number: int
    process: ProcessId
    method: str
    arguments: tuple[Any, ...]


@numbered(132, TO_AGENT)
class AskNode(MessageFields):
    """Call a method of the agent, and send what it returns as the `AskAnswered` of this number."""

    number: int
    method: str
    arguments: tuple[Any, ...]


@numbered(133, TO_AGENT)
class ShowLines(MessageFields):
    """Show lines to the drivers of that node that listen."""

    job: JobId
    pid: int
    name: str
    stream: str
    lines: list[str]


@numbered(134, TO_AGENT)
class EndNode(MessageFields):
    """End: the session is over, or the node has to leave it."""

    reason: str


@numbered(135, TO_AGENT)
class DrainNode(MessageFields):
    """The node is to leave within `seconds`, or once it is idle: let idle workers go, and tell the next head."""

    seconds: float | None


@numbered(136, TO_AGENT)
class SetResource(MessageFields):
    """The node has this `quantity` of a custom resource from now on."""

    name: str
    quantity: float


@numbered(137, TO_AGENT)
class Observe(MessageFields):
    """Begin (`wanted`) or stop reporting what happens on the node."""

    wanted: bool


@numbered(138, TO_AGENT)
class PackagePiece(MessageFields):
    """The piece of a package's archive that begins at `offset` bytes, of `total`; 0 if the head does not have it."""

    digest: str
    offset: int
    total: int
    piece: bytes


@numbered(139, TO_AGENT)
class NodeReachable(MessageFields):
    """Whether there is a node that remote drivers may be relayed to. Sent to the node beside the head only.

    `place` is the node's gateway.
    """

    place: str
    there: bool


# -- joining, on links between processes ---------------------------------------------------------------------------


@numbered(140, TO_HEAD)
class JoinCluster(MessageFields):
    """Let a node in. The first message; `python` and `version` (of the kernel) must be those of the head."""

    node: NodeId
    python: str
    version: str
    host: str


@numbered(141, TO_AGENT)
class Welcome(MessageFields):
    """The node is let in. `settings` are the pickled ones that all nodes share."""

    settings: bytes


@numbered(142, TO_AGENT)
class JoinRefused(MessageFields):
    """The node, or the tool, is not let in. The connection ends."""

    reason: str


@numbered(143, TO_HEAD)
class DescribeNode(MessageFields):
    """The pickled description of a node, sent once its parts are made."""

    description: bytes


@numbered(144, "head <-> agent")
class Heartbeat(MessageFields):
    """Sent by the head now and then, and back at once: one that is silent for too long is gone.

    `done` is how many of the agent's messages the head has handled; the agent sends 0.
    """

    done: int = 0


@numbered(145, TO_HEAD)
class LeaveCluster(MessageFields):
    """The node ends by itself."""

    reason: str


@numbered(146, TO_HEAD)
class AllTold(MessageFields):
    """Sent to a restarted head: the node has reported all that it has."""


@numbered(147, TO_HEAD)
class StillDraining(MessageFields):
    """Sent to a head that was started again: the node was about to leave, in `seconds` or once it is idle."""

    seconds: float | None


@numbered(148, TO_AGENT)
class CancelDrain(MessageFields):
    """The node that was to leave stays."""
