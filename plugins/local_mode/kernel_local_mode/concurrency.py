"""Let the calls of an actor take turns by its concurrency groups, and hold what a call needs in its turn."""

from __future__ import annotations

from kernel_engine.one_process.transport import InProcessChannel
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_local_mode.placement import LocalPlace
from kernel_spec.dataclass import dataclass


@dataclass(slots=True)
class LocalConcurrencyGroup:
    """Holds a concurrency group: how many calls may run at once, and how many do."""

    name: str
    limit: int
    active: int = 0


@dataclass(frozen=True, slots=True)
class Picked:
    """Holds a call that has its turn, and the incarnation of the actor that runs it."""

    task: Task
    group: LocalConcurrencyGroup
    runner: CallRunner
    channel: InProcessChannel
    place: LocalPlace
