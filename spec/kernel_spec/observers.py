"""The observer contract: receive the events of a session.

Observers run on the head (in the agent of its node, or in a process of its own), called from its loop thread with
batches of events, after the fact. They can't change anything; one that raises is reported once by name and asked no
more. Calls are noted in the workers and collected about once a second, when a worker ends, and when the session does;
what a killed worker had not handed over yet goes with it. Nothing is collected unless an observer is installed.

What they log with `logging` goes to the log of that process, at the session's level.

On conflict: a hook (all that answer). On absence events cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass

NODE: Final = "node"
WORKER: Final = "worker"
ACTOR: Final = "actor"
TASK: Final = "task"
"""A call of a function or of an actor's method."""
OBJECT: Final = "object"
"""A value in the object store."""
PLACEMENT_GROUP: Final = "placement_group"

ALIVE: Final = "ALIVE"
RESTARTING: Final = "RESTARTING"
DEAD: Final = "DEAD"
FINISHED: Final = "FINISHED"
FAILED: Final = "FAILED"
"""The call raised, or was cancelled. A call that is retried may fail several times."""
STORED: Final = "STORED"
SPILLED: Final = "SPILLED"
RESTORED: Final = "RESTORED"
FREED: Final = "FREED"
CREATED: Final = "CREATED"
RESCHEDULING: Final = "RESCHEDULING"
REMOVED: Final = "REMOVED"

STATES: Final[Mapping[str, tuple[str, ...]]] = {
    NODE: (ALIVE, DEAD),
    WORKER: (ALIVE, DEAD),
    ACTOR: (ALIVE, RESTARTING, DEAD),
    TASK: (FINISHED, FAILED),
    OBJECT: (STORED, SPILLED, RESTORED, FREED),
    PLACEMENT_GROUP: (CREATED, RESCHEDULING, REMOVED),
}
"""The states that are reported of each kind of thing; later versions may have more."""


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A change of state of one thing.

    `kind` and `state` are among `STATES`; `id` is its hexadecimal id; `time` is in seconds since the epoch; `detail`
    has further facts (name, pid, seconds, worker, cause of death).
    """

    kind: str
    state: str
    id: str
    time: float
    detail: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Observer(Protocol):
    """Receives events. See the module's text."""

    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        """Receive events, oldest first. Must return quickly; slow work belongs in a thread of the observer's own."""
        ...
