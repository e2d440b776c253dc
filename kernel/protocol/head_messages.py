"""The messages between the head and the agents of its nodes: number first, plain values after, in order on each link.

What a process says to the head travels through its agent, packed into `FROM_PROCESS`, and the answer back in
`TO_PROCESS`: those inner messages are the ones of `kernel.protocol.process_messages`.
"""

# -- agent to head -------------------------------------------------------------------------------------------------

PROCESS_JOINED = 101
"""process id, role, pid, address, job id, key of its environment, details: it may be heard of from now on."""
PROCESS_LEFT = 102
"""process id: its connection closed."""
FROM_PROCESS = 103
"""process id, the message."""
WORKER_FOUND = 104
"""lease id, which grant of it, worker id: this worker serves it."""
LEASE_UNSERVED = 105
"""lease id, which grant of it, pickled error: there will be no worker for it."""
WORKER_DIED = 106
"""worker id, pid, how it died, fault (see `process_messages`)."""
LEASE_BLOCKED = 107
"""lease id, whether its worker waits inside get (else it runs on), whether that asks first for its CPU (GO_ON)."""
ANSWER = 108
"""number of an ASK, the answer or None."""
EVENTS = 109
"""list of life cycle events: kind, state, id, seconds since the epoch, detail."""
CALLS = 110
"""worker id, what `Trace.new_calls` of it said."""
END_SESSION = 113
"""reason: end the whole session, everywhere."""
LEASE_HELD = 112
"""pickled request, grant and count of grants; worker or nothing; whether that is blocked: an earlier head granted it.
"""
LINES = 111
"""job id, pid, name, stream, lines of a worker whose listeners may be elsewhere."""
PLUGIN_FAULT = 115
"""text: what a plugin did on that node, for every program of the session."""
WANT_PACKAGE = 114
"""digest, offset: what of that package's archive begins there?"""

# -- head to agent -------------------------------------------------------------------------------------------------

TO_PROCESS = 121
"""process id, the message."""
JOB = 122
"""job id, pickled surroundings of its workers. Before the first lease of the job there."""
ENVIRONMENT = 123
"""key, description. Before the first lease of the environment there."""
FIND_WORKER = 124
"""lease id, job id, environment, work (the fields of `worker_pool.Work`), what `LEASE_HELD` is to tell the next head:
give the lease a worker."""
PACKAGE = 138
"""digest, offset, length of the whole archive (0: the head does not have it), the piece that begins at the offset."""
DROP_WORKER = 125
"""lease id, broken, whether its holder lives: use its worker again, or (broken) end it."""
CONSTRUCT = 126
"""worker id, class of the actor, how often it may be restarted, the message that makes the worker one."""
END_WORKER = 127
"""worker id, reason, whether it may finish its calls, whether it runs exit handlers."""
KILL_WORKER = 128
"""worker id, reason."""
JOB_ENDED = 129
"""job id: end its workers."""
PROCESSES_GONE = 130
"""ids of processes of another node, its gateway if it is gone itself: nothing of them is needed any more."""
ASK_PROCESS = 131
"""number, process id, method, arguments."""
ASK_NODE = 132
"""number, method, arguments."""
SHOW_LINES = 133
"""job id, pid, name, stream, lines: show them to the drivers here that listen."""
OBSERVE = 137
"""whether to tell what happens on the node: somebody has begun to listen, or nobody does any more."""
END = 134
"""reason: the session is over, or the node has to leave it."""
DRAIN = 135
"""seconds left or None: let idle workers go, and tell the next head. The node is to leave."""
RESOURCE = 136
"""name, quantity: the node has so much of a custom resource from now on."""
MEMBER = 139
"""to the node beside the head: place of a node's gateway, whether that is there. Remote drivers are relayed to it."""

# -- joining, on links between processes ---------------------------------------------------------------------------

JOIN = 140
"""agent -> head, first: node id, Python version, version of the kernel, host name."""
WELCOME = 141
"""head -> agent: pickled settings that all nodes share."""
REFUSED = 142
"""head -> agent: why it can't join. The connection ends."""
NODE = 143
"""agent -> head, once its parts are made: pickled description of the node."""
PULSE = 144
"""head -> agent, now and then: how many messages it did; and back, at once. Whoever is silent for too long is gone."""
DRAINING = 147
"""agent -> head that was started again: seconds left or None. The node was about to leave."""
ALL_TOLD = 146
"""agent -> head that was started again: this was all that the node has."""
LEAVE = 145
"""agent -> head: reason. The node ends by itself."""
