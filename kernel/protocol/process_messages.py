"""The messages of the processes of one machine to each other: number first, plain values after.

Direction and fields are given beside each. "owner" is the process that submitted a task or put an object. A
`result` is `(0, head)` or `(1, head, buffers)` for a value inside the message, `(2, size, places)` for a stored one.
`carried` lists references inside a value as `(object id, owner id, owner address)`.
"""

HELLO = 1
"""any -> any, first on each connection: process id, role, pid, address, Python version, details."""
CALL = 2
"""any -> any: request number, method name, arguments (marshal)."""
REPLY = 3
"""answer: request number, value."""
REPLY_ERROR = 4
"""answer: request number, pickled error."""
REPLY_PICKLED = 9
"""answer: request number, value that the head has pickled."""

# -- tasks and actor calls: owner <-> worker -----------------------------------------------------------------------

FUNCTION = 10
"""owner -> worker: function id, pickled function, description. Before the first task that names it."""
ACTIVATE = 11
"""owner -> worker: lease id, resources, devices, placement group (its strategy) or None. Before the first task."""
TASK = 12
"""owner -> worker: task id, function id, arguments, slots, number of returns, extra."""
ACTOR_CALL = 13
"""caller -> actor: task id, method name, arguments, slots, number of returns, extra."""
DONE = 14
"""worker -> owner: task id, head of the one small result."""
RESULTS = 15
"""worker -> owner: task id, results, carried per result."""
FAILED = 16
"""worker -> owner: task id, kind of failure, data."""
RETURNED = 17
"""worker -> owner: task ids that were not started and must run elsewhere."""
TOOK = 18
"""worker -> owner: function id, seconds that a call of it takes."""
GIVE_BACK = 19
"""owner -> worker: return up to this many tasks that are not started."""
CANCEL = 20
"""owner -> worker: task id, whether nested tasks are cancelled too."""
STREAM_ITEM = 21
"""worker -> owner: task id, index, result, carried."""
STREAM_TAKEN = 22
"""owner -> worker: task id, how many items the consumer has taken."""
WORN_OUT = 23
"""worker -> owner: the worker has run a function as often as its `max_calls` says and takes no more tasks."""

# -- objects and references: borrower <-> owner --------------------------------------------------------------------

FETCH = 30
"""borrower -> owner: object ids; answered by OBJECT as each is ready."""
OBJECT = 31
"""owner -> borrower: object id, kind (RESULT or FAILED), result or error, carried."""
BORROW = 32
"""borrower -> owner: object ids, number to acknowledge or 0."""
BORROWED = 33
"""owner -> borrower: the number."""
UNBORROW = 34
"""borrower -> owner: object ids."""
SETTLED = 35
"""receiver of a value -> its sender: task or object id whose carried references are registered now."""

# -- the node agent ------------------------------------------------------------------------------------------------

REQUEST_LEASE = 40
"""process -> agent: lease id, shape (see `submission`), name, bytes of the first task's arguments by place or None."""
CANCEL_LEASE = 41
"""process -> agent: lease id."""
LEASE_GRANTED = 42
"""agent -> process: lease id, worker id, worker address, resources, devices."""
LEASE_FAILED = 43
"""agent -> process: lease id, pickled error."""
RETURN_LEASE = 44
"""process -> agent: lease id, whether the worker must not be used again, worker id. If so, PROCESS_DIED answers."""
RECLAIM_LEASE = 45
"""agent -> process: lease id: give it back when what was sent is done."""
BLOCKED = 46
"""worker -> agent: waits inside get."""
UNBLOCKED = 47
"""worker -> agent: has what it waited for; whether it goes on only after GO_ON."""
PROCESS_DIED = 48
"""agent -> the holder of its lease: process id, text of how it died, fault (see below)."""
BECOME_ACTOR = 49
"""agent -> worker: actor id, pickled creation, (resources, devices, placement group as in ACTIVATE), attempt."""
ACTOR_READY = 50
"""worker -> agent: actor id, None or how construction failed."""
ACTOR_STATE = 51
"""agent -> subscribers: actor id, state, worker id, address, attempt, cause of death, what its constructor raised,
whether nobody had asked for that death."""
CREATE_ACTOR = 52
"""owner -> agent: actor id, description. One without a name; see also `create_named_actor`."""
FORGET_ACTOR = 53
"""owner -> agent: actor id whose last handle is gone."""
ACTOR_ARGUMENTS = 54
"""owner -> agent: actor id, creation, None or how an argument failed."""
SUBSCRIBE_ACTOR = 55
"""process -> agent: actor id."""
EXIT = 56
"""agent -> process: end; reason, whether it may finish its calls, whether it runs destructors and exit handlers."""
LOG_LINES = 57
"""agent -> driver: pid, name, stream (stdout, stderr, failure or notice), lines. See also `UNFINISHED`."""
FAILURE_STREAM = "failure"
"""The stream of texts about calls that failed and whose results nobody asked for."""
NOTICE_STREAM = "notice"
"""The stream of lines about what happens now, such as a breakpoint that waits."""
UNFINISHED = "~"
"""What follows the name of a stream if the text is that of a line which is written over; the latest one counts."""
CPU_TAKEN = 58
"""head -> worker that waits inside get: others use its CPU, so it is to ask before it goes on, until it may."""
GO_ON = 59
"""head -> worker that has asked: the CPU is its own again."""

STORE_CREATE = 60
"""client -> agent: request, object id, size, owner, weak."""
STORE_SEAL = 61
"""client -> agent: object id, whether to keep it pinned."""
STORE_ABORT = 62
"""client -> agent: object id."""
STORE_PIN = 63
"""client -> agent: request, object id."""
STORE_UNPIN = 64
"""client -> agent: object id."""
STORE_DELETE = 65
"""owner -> agent: object ids."""
STORE_RELEASE_IDLE = 66
"""agent -> clients: unpin what is kept without a live view."""

PEERS_GONE = 68
"""agent -> processes: ids of processes whose node is gone, place that it had; nothing is heard of them again."""
STORE_FETCH = 69
"""client -> agent: request, object id, size, places, owner, owner's address. As STORE_PIN; it may be elsewhere yet."""
STORE_DELETE_AT = 70
"""owner -> agent: place, object ids: STORE_DELETE for the store of another node."""
STORE_KEEP_AT = 72
"""owner -> agent: place, object id: its copy there is the one that counts now, and not to be dropped."""
LOST_AT = 37
"""borrower -> owner: object id, places that could not give it, why. What it asks next is answered when it is there
again."""
COPIED = 36
"""agent -> owner: object id, place that has it now as well."""

LAST_CALLS = 67
"""worker -> agent, as it ends: its latest calls as pickled trace events, for the timeline; those for observers."""

# -- kinds of failure ----------------------------------------------------------------------------------------------

USER_ERROR = 0
"""data: what `kernel.runtime.task_error.capture` made."""
CANCELLED = 1
"""data: a pickled TaskCancelledError."""
SYSTEM_ERROR = 2
"""data: a pickled error of `kernel_spec.errors`."""

# -- faults: what the death of a worker means for what it ran ------------------------------------------------------

DIED = 0
"""It died by itself, or somebody ended it."""
CROWDED_OUT = 1
"""Memory ran out, and others held more of it than this one: what it ran is run again without counting."""
OUT_OF_MEMORY = 2
"""Memory ran out, and this one held most of it."""
OVER_QUOTA = 3
"""It exceeded its memory quota: a task would do so again."""
TAKEN = 4
"""Somebody needed its place: what it ran is run again without counting."""
LOST = 5
"""It was lost from sight, with its node or otherwise: all that was sent to it may have been run, or be run yet."""

DYNAMIC = -2
"""number of returns: one reference to a list of references, made while the generator runs."""
STREAMING = -1
"""number of returns: a stream of references, each readable as soon as it is yielded."""
