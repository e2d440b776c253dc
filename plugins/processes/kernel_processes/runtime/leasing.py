"""Decide which tasks go to which leased worker, and how many leases to request. A pure state machine per shape.

Short tasks are sent many at a time, so that a worker never waits for the network; long ones one at a time, so that
they stay movable. What counts is the expected time of the tasks in flight: `WINDOW_SECONDS` of work and no more.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import field
from typing import Any, NamedTuple

from kernel.runtime.definitions import Shape
from kernel_engine.tasks.task import Task
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import LeaseId, ProcessId

WINDOW_SECONDS = 0.005
"""Seconds of expected work that a worker may hold unstarted."""
MAXIMUM_IN_FLIGHT = 512
MAXIMUM_REQUESTS = 16
"""Maximum number of leases of one shape that are requested at a time."""
IDLE_SECONDS = 0.1
"""Seconds for which an idle lease is kept in case more tasks come."""
BACKLOG_SECONDS = 5.0
"""Seconds after which the backlog is reported again, although it has hardly changed: the head may be another."""
_STALE_SECONDS = 0.02


@dataclass(slots=True, eq=False)
class WorkerLease:
    """Holds the state of a worker that this process has leased.

    `stalled`: it gave tasks back that were queued behind one that waits or takes long, so it gets no others until
    that one has ended. `worn_out`: the worker must end instead of being leased again. `place` is the gateway of its
    node.
    """

    id: LeaseId
    pool: LeasePool
    worker: ProcessId
    connection: Any
    in_flight: dict[bytes, Task] = field(default_factory=dict)
    load: float = 0.0
    reclaimed: bool = False
    idle_since: float = 0.0
    progress_at: float = 0.0
    asked_back: bool = False
    stalled: bool = False
    worn_out: bool = False
    place: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it has nothing to do, and may be given something."""
        return not self.in_flight and not self.reclaimed

    @property
    def has_room(self) -> bool:
        """Whether another task may be sent now."""
        return (
            not self.in_flight
            or (self.load < WINDOW_SECONDS and len(self.in_flight) < MAXIMUM_IN_FLIGHT and not self.stalled)
        ) and not self.reclaimed


class BacklogReport(NamedTuple):
    """What the head is told of the tasks that wait behind the requests of a pool: see `Backlog`, and when (`at`)."""

    lease: LeaseId
    tasks: int
    seconds: float
    at: float


class LeasePool:
    """Holds waiting tasks of one shape and the workers leased for them. `repeatable`: all tasks may be run again.

    `home` is the place where their large arguments lie, if they have such.
    """

    def __init__(self, shape: Shape, repeatable: bool = False, home: str = "") -> None:
        self.shape = shape
        self.repeatable = repeatable
        self.home = home
        self.queue: deque[Task] = deque()
        self.leases: list[WorkerLease] = []
        self.requested: dict[LeaseId, float] = {}
        self.queued_seconds = 0.0
        self.has_cancelled = False
        """Whether tasks that wait may have been cancelled since `drop_cancelled`."""
        self._reported: BacklogReport | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has neither tasks nor leases, and asks for none."""
        return not (self.queue or self.leases or self.requested)

    def pick(self) -> WorkerLease | None:
        """Return the lease that should take the next task: the emptiest with room."""
        best = None
        for lease in self.leases:
            if lease.has_room and (best is None or lease.load < best.load):
                best = lease
        return best

    def missing_requests(self) -> int:
        """Return the number of further leases to request now."""
        queued = len(self.queue)
        if not queued:
            return 0
        useful = min(queued, max(1, math.ceil(self.queued_seconds / WINDOW_SECONDS)))
        return max(0, min(useful, MAXIMUM_REQUESTS) - len(self.requested))

    def backlog_report(self, now: float, is_known: bool) -> BacklogReport | None:
        """Return what to report of the tasks behind the requests; None if the head knows enough.

        It is reported for the oldest request, when it has doubled or halved, and every `BACKLOG_SECONDS`. Unless it
        `is_known` how long its tasks take, they are expected to take for ever: they may be long ones.
        """
        if not self.requested:
            self._reported = None
            return None
        oldest, tasks = next(iter(self.requested)), max(0, len(self.queue) - len(self.requested))
        last = self._reported
        if last is None or last.lease != oldest:
            needed = tasks > 0
        else:
            needed = not last.tasks / 2 < tasks < last.tasks * 2 if last.tasks else tasks > 0
            needed = needed or (tasks > 0 and now - last.at >= BACKLOG_SECONDS)
        if not needed:
            return None
        expected = self.queued_seconds if is_known else math.inf
        seconds = expected * tasks / len(self.queue) if tasks else 0.0
        self._reported = BacklogReport(oldest, tasks, seconds, now)
        return self._reported

    def push(self, task: Task, estimate: float) -> None:
        """Queue a task that is expected to take `estimate` seconds."""
        task.estimate = estimate
        self.queue.append(task)
        self.queued_seconds += estimate

    def pop(self) -> Task | None:
        """Take the next task off the queue, passing over cancelled ones."""
        while self.queue:
            task = self.queue.popleft()
            self.queued_seconds -= task.estimate
            if not task.cancelled:
                return task
        self.queued_seconds = 0.0
        return None

    def drop_cancelled(self) -> bool:
        """Take cancelled tasks off the queue, so that nothing is asked for them; return whether there were any."""
        if not self.has_cancelled:
            return False
        self.has_cancelled = False
        kept = [task for task in self.queue if not task.cancelled]
        if len(kept) == len(self.queue):
            return False
        self.queue.clear()
        self.queue.extend(kept)
        self.queued_seconds = sum(task.estimate for task in kept)
        return True

    def start(self, lease: WorkerLease, task: Task, estimate: float) -> None:
        """Note that `task` was sent to `lease`."""
        task.estimate = estimate
        task.place = lease
        lease.in_flight[task.id] = task
        lease.load += estimate

    def finish(self, task: Task, now: float) -> None:
        """Note that a task of a lease ended."""
        lease: WorkerLease = task.place
        if lease.in_flight.pop(task.id, None) is not None:
            lease.load = lease.load - task.estimate if lease.in_flight else 0.0
            lease.progress_at = now
            lease.stalled = lease.asked_back = False
            if not lease.in_flight:
                lease.idle_since = now

    def returned(self, task: Task, now: float) -> None:
        """Note that a lease gave a task back without starting it: queue it again, before the others."""
        lease: WorkerLease = task.place
        self.finish(task, now)
        lease.stalled = bool(lease.in_flight)
        task.place = None
        self.queue.appendleft(task)
        self.queued_seconds += task.estimate

    def lost(self, lease: WorkerLease) -> list[Task]:
        """Forget a lease whose worker is gone; return what it held, the one that ran first."""
        self.leases.remove(lease)
        return list(lease.in_flight.values())

    def to_return(self, now: float) -> list[WorkerLease]:
        """Return the leases to give back: idle for long, or wanted by others."""
        return [
            lease
            for lease in self.leases
            if not lease.in_flight and (lease.reclaimed or now - lease.idle_since >= IDLE_SECONDS)
        ]

    def to_rebalance(self, now: float) -> list[WorkerLease]:
        """Return leases stuck behind a long task while another lease has nothing to do."""
        if self.queue or not any(not lease.in_flight and not lease.reclaimed for lease in self.leases):
            return []
        stuck = [
            lease
            for lease in self.leases
            if len(lease.in_flight) > 1 and now - lease.progress_at > _STALE_SECONDS and not lease.asked_back
        ]
        for lease in stuck:
            lease.asked_back = True
        return stuck

    def validate(self) -> None:
        """Raise AssertionError when the books do not add up."""
        for lease in self.leases:
            assert lease.pool is self
            assert all(task.place is lease for task in lease.in_flight.values())
            expected = sum(task.estimate for task in lease.in_flight.values())
            assert abs(lease.load - expected) < 1e-6, f"load {lease.load}, expected {expected}"
