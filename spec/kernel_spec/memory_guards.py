"""The memory guard contract: a guard decides which worker of a node is ended when memory runs out, when, and why.

One guard is made in the agent of each node, and called from its loop a few times a second: it must return at once. It
does no I/O, reads no clock and ends no worker itself. It gets the memory in use and the memory of each worker, and
returns the workers to end; the agent ends them, and informs the owners of their tasks.

The order of calls is `needs_sizes`, `sample`, `wait`, again and again. A worker that was ended may be among the workers
for some time, until its process has ended. A guard that raises, or names a worker that it was not given, is
reported by name to all programs of the session, and the kernel's own replaces it for the life of the node.

On conflict: a driver (one chosen by name). On absence the kernel's own, `cheapest`, is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ProcessId
from kernel_spec.memory_words import ACTORS, THRESHOLD

IDLE, TASK, ACTOR, ENDING = "idle", "task", "actor", "ending"
"""Kinds of workers: without work, running a task, being an actor, or asked to end."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The settings that a guard is made with.

    `node` is the node's name for messages. `threshold` is the share of a limit at which memory has run out (0: never),
    `quotas` is one of `memory_words.QUOTAS`. Both are the user's choice, and were checked.
    """

    node: str
    threshold: float = THRESHOLD
    quotas: str = ACTORS


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """One limit of memory (the machine's, a container's, the node's own) and the used part of it, in bytes.

    `name` is for messages.
    """

    name: str
    used: int
    total: int

    @property
    def share(self) -> float:
        """The used share of the limit, from 0 to 1."""
        return self.used / self.total


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """The memory of a worker, and the cost of ending it.

    `size` is the unshared memory in bytes of the worker and of the processes that it started. `kind` is idle, task,
    actor or ending. `again` says whether its work can be repeated. `owner` is the process that it works for, `since`
    the start of that work (seconds of any clock), `reserved` its memory quota in bytes, or 0.
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
        """Bytes in use beyond the quota."""
        return max(0, self.size - self.reserved)


@dataclass(frozen=True, slots=True)
class RetireWorker:
    """Ask this idle worker to end, unless another process needs objects that it owns."""

    worker: ProcessId


@dataclass(frozen=True, slots=True)
class EndForMemory:
    """End this worker now. `fault` is one of `memory_words.FAULTS`, `cause` the reason for messages."""

    worker: ProcessId
    fault: str
    cause: str


@runtime_checkable
class MemoryGuard(Protocol):
    """Decides which workers of one node are ended. See the module's text."""

    name: str

    def is_bound(self, kind: str) -> bool:
        """Return whether the quota of a worker of this kind is enforced; then its size is always measured."""
        ...

    def needs_sizes(self, limits: Sequence[MemoryLimit]) -> bool:
        """Return whether the next `sample` needs the sizes of all workers, which take long to measure.

        Otherwise the size of a worker without an enforced quota may be given as 0.
        """
        ...

    def sample(
        self, now: float, limits: Sequence[MemoryLimit], workers: Sequence[WorkerMemory]
    ) -> Sequence[RetireWorker | EndForMemory]:
        """Take the memory in use at `now` (seconds of a monotonic clock); return the workers to end.

        `limits` is empty where no limit can be read.
        """
        ...

    def wait(self, limits: Sequence[MemoryLimit]) -> float:
        """Return the seconds, above 0, until the next sample: few when the free memory could be filled soon."""
        ...
