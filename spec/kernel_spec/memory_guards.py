"""The memory guard contract: which worker of a node ends when memory runs out, when, and why.

One guard is made in the agent of each node, and called from its loop a few times a second: it must return at once. It
does no I/O, reads no clock and ends nobody itself. It is told what is in use and what each worker holds, and answers
with whom to end; the agent does that, and tells the owners of what the worker ran.

The order of calls is `needs_sizes`, `sample`, `wait`, again and again. A worker that was ended may be among the workers
for some time, until its process is gone. A guard that raises, or names a worker that it was not told of, is
reported by name to all programs of the session, and the kernel's own takes its place for as long as the node lives.

On conflict: a driver (one chosen by name). On absence the kernel's own, `cheapest`, is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ProcessId
from kernel_spec.memory_words import ACTORS, THRESHOLD

IDLE, TASK, ACTOR, ENDING = "idle", "task", "actor", "ending"
"""What a worker does: nothing, a task, it is an actor, or it was told to end."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What a guard is made with.

    `node` is what people know the node as. `threshold` is the share of a limit from which on memory has run out (0:
    never), `quotas` one of `memory_words.QUOTAS`. Both are what the user has chosen, and were checked.
    """

    node: str
    threshold: float = THRESHOLD
    quotas: str = ACTORS


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One limit of memory (the machine's, a container's, the node's own) and what is used of it, in bytes.

    `name` is for people.
    """

    name: str
    used: int
    total: int

    @property
    def share(self) -> float:
        """The used share of it, from 0 to 1."""
        return self.used / self.total


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """The memory of a worker, and what its end would cost.

    `size` is the unshared memory in bytes of it and of the processes that it started. `kind` is idle, task, actor or
    ending. `again` says whether its work can be repeated. `owner` is the process that it works for, `since` when it
    began to (seconds of any clock), `reserved` its memory quota in bytes or 0.
    """

    id: ProcessId
    pid: int
    name: str
    kind: str
    size: int
    again: bool = False
    owner: bytes = b""
    since: float = 0.0
    reserved: int = 0

    @property
    def excess(self) -> int:
        """Bytes beyond its quota."""
        return max(0, self.size - self.reserved)


@dataclass(frozen=True, slots=True)
class RetireWorker:
    """Ask this idle worker to end, unless another process needs objects that it owns."""

    worker: ProcessId


@dataclass(frozen=True, slots=True)
class EndForMemory:
    """End this worker now. `fault` is one of `memory_words.FAULTS`, `cause` is the reason for people."""

    worker: ProcessId
    fault: str
    cause: str


@runtime_checkable
class MemoryGuard(Protocol):
    """Decides for one node. See the module's text."""

    name: str

    def is_bound(self, kind: str) -> bool:
        """Return whether the quota of a worker of this kind is a limit: then its size is always known."""
        ...

    def needs_sizes(self, limits: Sequence[MemoryLimit]) -> bool:
        """Return whether the next `sample` needs the sizes of all workers, which takes long to find out.

        Without that, the size of a worker that has no quota, or is not bound to it, may be said to be 0.
        """
        ...

    def sample(
        self, now: float, limits: Sequence[MemoryLimit], workers: Sequence[WorkerMemory]
    ) -> Sequence[RetireWorker | EndForMemory]:
        """Take in what is used at `now` (seconds of a clock that never goes back); return what to do.

        `limits` may be empty, where nothing can be read.
        """
        ...

    def wait(self, limits: Sequence[MemoryLimit]) -> float:
        """Return in how many seconds to look again, above 0: soon where the room could be filled soon."""
        ...
