"""The messages of the processes of one machine to each other.

What is sent for every task, object or lease is a plain tuple, described beside its number; all else is a class (see
`kernel_engine.messages.named_messages`). "owner" is the process that submitted a task or put an object. A `result` is
`(0, head)` or `(1, head, buffers)` for a value inside the message, `(2, size, places)` for a stored one. `carried`
lists references inside a value as `(object id, owner id, owner address)`.
"""

from __future__ import annotations

from typing import Any

from kernel_engine.messages.message_fields import MessageFields
from kernel_engine.messages.named_messages import numbered
from kernel_spec.ids import ActorId, LeaseId, ObjectId, ProcessId, TaskId

CALL = 2
"""caller -> callee: request number, method name, arguments. Call a method of the other process."""
REPLY = 3
"""callee -> caller: request number, value. The result of the method."""
REPLY_ERROR = 4
"""callee -> caller: request number, pickled error. The error that the method raised."""
REPLY_PICKLED = 9
"""head -> caller: request number, pickled value. The result of a method of the head."""

# -- tasks and actor calls: owner <-> worker -----------------------------------------------------------------------

FUNCTION = 10
"""owner -> worker: function id, pickled function, description. Sent before the first task that names it."""
ACTIVATE = 11
"""owner -> worker: lease id, resources, devices, placement group (its strategy) or None. Sent before the
first task of a lease."""
TASK = 12
"""owner -> worker: task id, function id, arguments, slots, number of returns, extra. Run a task."""
ACTOR_CALL = 13
"""caller -> actor: task id, method name, arguments, slots, number of returns, extra. Run a call."""
DONE = 14
"""worker -> owner: task id, head of the result. A task has one small result."""
RESULTS = 15
"""worker -> owner: task id, results, carried per result. A task has these results."""
FAILED = 16
"""worker -> owner: task id, kind of failure, data. A task has failed."""
RETURNED = 17
"""worker -> owner: task ids. They were not started, and must run elsewhere."""
TOOK = 18
"""worker -> owner: function id, seconds. So long does a call of the function take."""
GIVE_BACK = 19
"""owner -> worker: number of tasks. Return up to so many that are not started."""
STREAM_ITEM = 21
"""worker -> owner: task id, index, result, carried. A generator has yielded an item."""
STREAM_TAKEN = 22
"""owner -> worker: task id, number of items. The consumer has taken so many; -1: it will take no more."""

# -- objects and references: borrower <-> owner --------------------------------------------------------------------

FETCH = 30
"""borrower -> owner: object ids. Send OBJECT as each is ready."""
OBJECT = 31
"""owner -> borrower: object id, kind (RESULTS or FAILED), result or error, carried. The answer to FETCH."""
BORROW = 32
"""borrower -> owner: object ids, number to acknowledge or 0. Count a reference to each."""
BORROWED = 33
"""owner -> borrower: number. The references of that BORROW are counted."""
UNBORROW = 34
"""borrower -> owner: pairs of object id and number of references. Count so many less."""
SETTLED = 35
"""receiver of a value -> its sender: task or object id. The references that it carried are registered."""

# -- leases: process <-> head, through the agent --------------------------------------------------------------------

REQUEST_LEASE = 40
"""process -> head: lease id, shape (see `submission`), name, bytes of the first task's arguments by place or None.
Lease a worker to the process."""
CANCEL_LEASE = 41
"""process -> head: lease id. It is not wanted any more."""
LEASE_GRANTED = 42
"""head -> process: lease id, worker id, worker address, resources, devices. The answer to REQUEST_LEASE."""
RETURN_LEASE = 44
"""process -> head: lease id, broken, worker id. Take it back; if its worker is broken, answer by `LeasedWorkerDied`."""
RECLAIM_LEASE = 45
"""head -> process: lease id. Give it back when what was sent is done."""
BLOCKED = 46
"""worker -> agent: nothing. It waits inside get."""
UNBLOCKED = 47
"""worker -> agent: whether it goes on only after GO_ON. It has what it waited for."""
CPU_TAKEN = 58
"""head -> worker: nothing. While it waits inside get others use its CPU: it is to ask before it goes on."""
GO_ON = 59
"""head -> worker: nothing. It has asked, and the CPU is its own again."""

# -- the object store ----------------------------------------------------------------------------------------------

STORE_CREATE = 60
"""client -> agent: request number, object id, size, owner, weak. Make room for an object of so many bytes."""
STORE_SEAL = 61
"""client -> agent: object id, whether to keep it pinned. The object is written."""
STORE_ABORT = 62
"""client -> agent: object id. It will not be written."""
STORE_PIN = 63
"""client -> agent: request number, object id. Keep an object where it is, and say where."""
STORE_UNPIN = 64
"""client -> agent: object id. The client does not read it any more."""
STORE_DELETE = 65
"""owner -> agent: object ids. They are not needed any more."""
STORE_RELEASE_IDLE = 66
"""agent -> clients: nothing. Unpin what is kept without a live view."""
STORE_FETCH = 69
"""client -> agent: request number, object id, size, places, owner, owner's address. As STORE_PIN, for an object that
may be elsewhere yet."""
STORE_DELETE_AT = 70
"""owner -> agent: place, object ids. STORE_DELETE for the store of another node."""
STORE_KEEP_AT = 72
"""owner -> agent: place, object id. The copy there is the one that counts now, and not to be dropped."""
COPIED = 36
"""agent -> owner: object id, place. A copy is there as well: delete it if the object is not needed any more."""


# -- seldom sent ---------------------------------------------------------------------------------------------------


@numbered(1, "any -> any")
class Introduction(MessageFields):
    """The first message of a connection: the identity of its sender. Both sides must run the same `python`."""

    process: ProcessId
    role: str
    pid: int
    address: str
    python: str
    details: dict[str, Any]


@numbered(20, "owner -> worker")
class CancelTask(MessageFields):
    """Cancel a task or actor call; `recursive`: those that it has submitted as well."""

    task: TaskId
    recursive: bool


@numbered(23, "worker -> owner")
class WornOut(MessageFields):
    """The worker has run a function as often as its `max_calls` says, and takes no more tasks."""


@numbered(37, "borrower -> owner")
class LostAt(MessageFields):
    """`places` could not give an object, and why. The borrower's next request is answered when the object is back."""

    object: ObjectId
    places: tuple[str, ...]
    why: str


@numbered(43, "head -> process")
class LeaseFailed(MessageFields):
    """A lease can't be granted. `error` is a pickled KernelError."""

    lease: LeaseId
    error: bytes


@numbered(48, "head -> holder of a lease")
class LeasedWorkerDied(MessageFields):
    """The worker of a lease has died; `cause` is the reason for people. `fault` says what that means (see below)."""

    worker: ProcessId
    cause: str
    fault: int


@numbered(49, "agent -> worker")
class BecomeActor(MessageFields):
    """Construct an actor, for the `attempt`th time. `creation` is the pickled call of its constructor.

    `held` is its resources, its devices, and its placement group as in ACTIVATE.
    """

    actor: ActorId
    creation: bytes
    held: tuple[Any, ...]
    attempt: int


@numbered(50, "worker -> head")
class ActorReady(MessageFields):
    """The constructor has returned (`failure` is None), or raised: `failure` is in the form of a failed call's."""

    actor: ActorId
    failure: Any


@numbered(51, "head -> subscribers")
class ActorState(MessageFields):
    """The state of an actor, and where it is. `failure` is what its constructor raised.

    `cause` tells people why it died; `crashed` says whether it died without having been told to.
    """

    actor: ActorId
    state: str
    worker: ProcessId
    address: str
    attempt: int
    cause: str
    failure: Any
    crashed: bool


@numbered(52, "owner -> head")
class CreateActor(MessageFields):
    """Create an actor without a name (see also `create_named_actor`), as its pickled description says."""

    actor: ActorId
    description: bytes


@numbered(53, "owner -> head")
class ForgetActor(MessageFields):
    """The last handle of an actor is gone."""

    actor: ActorId


@numbered(54, "owner -> head")
class ActorArguments(MessageFields):
    """The arguments of an actor's constructor are there: `failure` is None or how one of them failed."""

    actor: ActorId
    creation: bytes
    failure: Any


@numbered(55, "process -> head")
class SubscribeActor(MessageFields):
    """Send the `ActorState` of an actor, now and whenever it changes."""

    actor: ActorId


@numbered(56, "agent -> process")
class EndProcess(MessageFields):
    """End. `drain` says whether calls may finish, `kindly` whether destructors and exit handlers run."""

    reason: str
    drain: bool
    kindly: bool


@numbered(57, "agent -> driver")
class LogLines(MessageFields):
    """Show lines of a process. `stream` is stdout, stderr, failure or notice; see also `UNFINISHED`."""

    pid: int
    name: str
    stream: str
    lines: list[str]


@numbered(67, "worker -> head")
class LastCalls(MessageFields):
    """The latest calls of a worker that ends: as pickled trace events for the timeline, and those for observers."""

    events: bytes
    new: list[Any]


@numbered(68, "agent -> processes")
class PeersGone(MessageFields):
    """The node at `place` is gone, and these processes with it: they will send nothing any more."""

    processes: list[ProcessId]
    place: str


@numbered(71, "process -> head")
class LastMetrics(MessageFields):
    """The metrics of a process that ends, as a pickled `MetricsSnapshot`."""

    snapshot: bytes


@numbered(73, "process -> head")
class Backlog(MessageFields):
    """So many `tasks` wait behind a request for a lease, and are expected to take so many `seconds` together.

    Infinite if nobody knows yet. Sent when that has doubled or halved, and now and then.
    """

    lease: LeaseId
    tasks: int
    seconds: float


# -- streams of lines -------------------------------------------------------------------------------------------------

FAILURE_STREAM = "failure"
"""The stream of texts about failed calls whose results were never asked for."""
NOTICE_STREAM = "notice"
"""The stream of lines about what happens now, such as a breakpoint that waits."""
UNFINISHED = "~"
"""Appended to the name of a stream if the text is that of a line which is overwritten; the latest one counts."""

# -- kinds of failure ----------------------------------------------------------------------------------------------

USER_ERROR = 0
"""kind of failure: its data is what `kernel_engine.failures.task_error.capture` made."""
CANCELLED = 1
"""kind of failure: its data is a pickled TaskCancelledError."""
SYSTEM_ERROR = 2
"""kind of failure: its data is a pickled error of `kernel_spec.errors`."""

# -- faults: what the death of a worker means for what it ran ------------------------------------------------------

DIED = 0
"""fault: it died by itself, or was killed from outside."""
CROWDED_OUT = 1
"""fault: memory ran out, and others held more of it than this one: what it ran is run again without counting."""
OUT_OF_MEMORY = 2
"""fault: memory ran out, and this one held most of it."""
OVER_QUOTA = 3
"""fault: it exceeded its memory quota: a task would do so again."""
TAKEN = 4
"""fault: its place was needed: what it ran is run again without counting."""
LOST = 5
"""fault: it was lost from sight, perhaps with its node: all that was sent to it may have been run, or be run yet."""
