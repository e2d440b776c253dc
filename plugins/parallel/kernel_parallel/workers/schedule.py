"""Assign chunks of jobs to idle workers, first come, first served. A state machine: no I/O, no clocks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from kernel_parallel.workers.jobs import CALL, Chunk, ChunkJob
from kernel_spec.dataclass import dataclass


@dataclass(slots=True, eq=False)
class ScheduledWorker:
    """A worker process: its actor, how many messages it was sent and has not answered, and the functions it keeps."""

    actor: Any
    tasks: int = 0
    unanswered: int = 0
    sent: int = 0
    """The number of the next message."""
    sending: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever sends it a message."""
    known: dict[int, None] = field(default_factory=dict)


class Schedule:
    """Idle workers and jobs that have chunks left. Its owner calls it under a lock.

    `max_tasks` is after how many chunks a worker is replaced (None: never), `retries` how often a chunk whose worker
    died is given to another one; `burst(function)` how many calls of it may go together.
    """

    def __init__(self, max_tasks: int | None, retries: float, burst: Callable[[Callable[..., Any]], int]) -> None:
        self._burst = burst
        self._max_tasks = max_tasks
        self._retries = retries
        self.workers: list[ScheduledWorker] = []
        self._idle: deque[ScheduledWorker] = deque()
        self._soon_idle: deque[ScheduledWorker] = deque()
        """Those that have one message, of quick calls: another one can be on its way meanwhile."""
        self._lost: deque[Chunk] = deque()
        self._queue: deque[ChunkJob] = deque()
        self._queued: set[ChunkJob] = set()
        self.jobs: set[ChunkJob] = set()
        """Those that are not over."""

    def add_worker(self, worker: ScheduledWorker) -> None:
        """Take a worker in; it is idle."""
        self.workers.append(worker)
        self._idle.append(worker)

    def add_job(self, job: ChunkJob) -> None:
        """Take a job in, or one that has got more chunks."""
        if job not in self._queued:
            self._queue.append(job)
            self._queued.add(job)
        self.jobs.add(job)

    def end_job(self, job: ChunkJob) -> None:
        """Forget a job that is over."""
        self.jobs.discard(job)

    @property
    def wants_driver(self) -> bool:
        """Whether there are both: a worker, and something for it to do."""
        return bool(self._lost or self._queue) if self._idle else bool(self._soon_idle and self._next_is_quick())

    def _next_is_quick(self) -> bool:
        return bool(not self._lost and self._queue and self._burst(self._queue[0].function) > 1)

    def assign(self, only: ChunkJob | None = None) -> tuple[ScheduledWorker, list[Chunk]] | None:
        """Return a worker and what it does next (of the job `only`, and only if that is first), or None.

        That is one chunk, or several calls of one function that is known to be quick. The worker is idle; for a quick
        function it may be about to be.
        """
        workers = self._idle or self._soon_idle
        if not self.wants_driver:
            return None
        again = bool(self._lost)
        first = self._next_chunk(only)
        if first is None:
            return None
        chunks = [first]
        if not again and self._max_tasks is None:
            self._fill(chunks)
        worker = workers.popleft()
        worker.tasks += 1
        worker.unanswered += 1
        if worker.unanswered == 1 and self._max_tasks is None and self._burst(first.job.function) > 1:
            self._soon_idle.append(worker)
        for chunk in chunks:
            chunk.attempts += 1
        return worker, chunks

    def _fill(self, chunks: list[Chunk]) -> None:
        job = chunks[0].job
        single = job.how == CALL
        waiting = len(self._queue) if single else job.waiting()
        room = min(self._burst(job.function) // max(chunks[0].size, 1), -(-(waiting + 1) // len(self.workers)))
        while len(chunks) < room and self._queue:
            queued = self._queue[0]
            if queued.function is not job.function or (queued.how != CALL if single else queued is not job):
                return
            chunk = queued.take(len(self.workers))
            if chunk is None or single:
                self._queued.discard(self._queue.popleft())
            if chunk is not None:
                chunks.append(chunk)
            elif single:
                self.jobs.discard(queued)

    def _next_chunk(self, only: ChunkJob | None) -> Chunk | None:
        while self._lost:
            if only is not None and self._lost[0].job is not only:
                return None
            chunk = self._lost.popleft()
            if chunk.job in self.jobs:
                return chunk
        while self._queue:
            job = self._queue[0]
            if only is not None and job is not only:
                return None
            found = job.take(len(self.workers))
            if found is None or job.how == CALL:
                self._queued.discard(self._queue.popleft())
            if found is not None:
                return found
            if job.how == CALL:
                self.jobs.discard(job)
        return None

    def finish(self, worker: ScheduledWorker) -> bool:
        """Note that a worker has answered a message; return whether it has served its time and is to be replaced."""
        worker.unanswered -= 1
        if self._max_tasks is not None and worker.tasks >= self._max_tasks:
            self.workers.remove(worker)
            return True
        if worker not in self.workers:
            return False
        if worker.unanswered:
            self._soon_idle.append(worker)
        else:
            if worker in self._soon_idle:
                self._soon_idle.remove(worker)
            self._idle.append(worker)
        return False

    def lose(self, worker: ScheduledWorker, chunks: list[Chunk]) -> tuple[bool, list[Chunk]]:
        """Note that a worker died over chunks; return whether that is new, and those that no other worker is to try."""
        new = worker in self.workers
        if new:
            self.workers.remove(worker)
        if worker in self._soon_idle:
            self._soon_idle.remove(worker)
        chunks = [chunk for chunk in chunks if chunk.job in self.jobs]
        self._lost.extend(chunk for chunk in chunks if chunk.attempts <= self._retries)
        return new, [chunk for chunk in chunks if chunk.attempts > self._retries]

    def give_back(self, chunks: list[Chunk]) -> None:
        """Take back chunks that were assigned and never began: they are next, each for itself."""
        for chunk in chunks:
            chunk.attempts -= 1
        self._lost.extendleft(reversed([chunk for chunk in chunks if chunk.job in self.jobs]))

    def clear(self) -> tuple[list[ScheduledWorker], list[ChunkJob]]:
        """Give up all workers and all jobs, and return them."""
        workers, jobs = self.workers, list(self.jobs)
        self.workers = []
        self.jobs = set()
        self._idle.clear()
        self._soon_idle.clear()
        self._lost.clear()
        self._queue.clear()
        self._queued.clear()
        return workers, jobs

    def validate(self) -> None:
        """Raise AssertionError when something that must always hold does not."""
        assert len(set(map(id, self._idle))) == len(self._idle), "a worker is idle twice"
        assert all(worker in self.workers for worker in self._idle), "an idle worker is not one of ours"
        assert all(worker.unanswered == 0 for worker in self._idle), "an idle worker has something to do"
        assert all(worker.unanswered == 1 for worker in self._soon_idle), "a worker is about to be idle, but not soon"
        assert all(worker in self.workers for worker in self._soon_idle), "a worker to come is not one of ours"
        assert len(self._queue) == len(self._queued), "a job is queued twice"
