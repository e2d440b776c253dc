"""Processes that submit tasks: each leases workers and sends them task after task, as the real ones do.

A process asks for as many workers as its queue can keep busy, at most sixteen at a time. It keeps them while there are
tasks, and gives one back when it has been idle for a moment or is asked back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from kernel_processes.runtime.leasing import IDLE_SECONDS, MAXIMUM_REQUESTS, WINDOW_SECONDS
from kernel_simulation.agenda import Agenda
from kernel_simulation.distributions import FOREVER
from kernel_simulation.head import SimulatedHead, SimulatedLease
from kernel_simulation.measures import Tally
from kernel_spec.scheduling import LeaseRequest

WITHDRAW_SECONDS = 0.05
"""Seconds before requests are withdrawn once there is nothing left to run."""


class Submitter:
    """One process and its tasks of one class. `make_request` returns a new request of it."""

    def __init__(
        self,
        tally: Tally,
        head: SimulatedHead,
        agenda: Agenda,
        make_request: Callable[[], LeaseRequest],
        grant_seconds: float,
    ) -> None:
        self.queue: deque[int] = deque()
        self.tally = tally
        self._head = head
        self._agenda = agenda
        self._make_request = make_request
        self._grant_seconds = grant_seconds
        self._requested: dict[Any, SimulatedLease] = {}
        self._idle: dict[SimulatedLease, float] = {}
        self._withdrawing = False
        durations = tally.durations
        mean = sum(durations) / len(durations)
        self._estimate = mean if mean < FOREVER else 1.0
        self._blocked = tally.work.blocked

    def dispatch(self) -> None:
        """Give waiting tasks to idle workers, and ask for more workers."""
        queue, idle = self.queue, self._idle
        while queue and idle:
            lease, _ = idle.popitem()
            self._start(lease, queue.popleft())
        if not queue:
            if self._requested and not self._withdrawing:
                self._withdrawing = True
                self._agenda.after(WITHDRAW_SECONDS, self._withdraw, None)
            return
        useful = (
            math.ceil(len(queue) * self._estimate / WINDOW_SECONDS) if self._estimate < WINDOW_SECONDS else len(queue)
        )
        for _ in range(min(useful, len(queue), MAXIMUM_REQUESTS) - len(self._requested)):
            lease = SimulatedLease(self._make_request(), self)
            self._requested[lease.request.id] = lease
            self._head.request(lease)

    @property
    def backlog(self) -> int:
        """The number of tasks behind the requests."""
        return max(0, len(self.queue) - len(self._requested))

    @property
    def backlog_seconds(self) -> float:
        """How long these are expected to take: for ever, until one of them has ended."""
        return self.backlog * self._estimate if self.tally.done else FOREVER

    # -- what the head says ----------------------------------------------------------------------------------------

    def granted(self, lease: SimulatedLease) -> None:
        """Start the worker of a lease."""
        self.tally.held.change(self._agenda.now, 1)
        self._agenda.after(self._grant_seconds, self._ready, lease)

    def asked_back(self, lease: SimulatedLease) -> None:
        """Release the lease as soon as nothing runs on its worker."""
        lease.asked_back = True
        if lease in self._idle:
            del self._idle[lease]
            self._release(lease)

    def ended(self, lease: SimulatedLease, preempted: bool) -> None:
        """Forget a lease that was lost, and queue its task again if it has retries left."""
        now = self._agenda.now
        self._idle.pop(lease, None)
        self._requested.pop(lease.request.id, None)
        self.tally.held.change(now, -1)
        if lease.piece >= 0:
            self.tally.running.change(now, -1)
            self.tally.blocked.change(now, -lease.blocked)
            if self.tally.lose(lease.piece, now - lease.begun, preempted):
                self.queue.appendleft(lease.piece)
        self.dispatch()

    # -- what the workers do ---------------------------------------------------------------------------------------

    def _ready(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        del self._requested[lease.request.id]
        self._next(lease)
        self.dispatch()

    def _next(self, lease: SimulatedLease) -> None:
        """Let a worker that has nothing to do run the next task, if it may."""
        if lease.asked_back:
            self._release(lease)
        elif self.queue:
            self._start(lease, self.queue.popleft())
        else:
            now = self._agenda.now
            self._idle[lease] = now
            self._agenda.after(IDLE_SECONDS, self._end_idle, (lease, now))

    def _start(self, lease: SimulatedLease, piece: int) -> None:
        now = self._agenda.now
        self.tally.start(piece, now)
        self.tally.running.change(now, 1)
        lease.piece = piece
        lease.begun = now
        seconds = self.tally.durations[piece]
        if self._blocked:
            self._agenda.after(seconds * (1 - self._blocked), self._block, (lease, piece))
        if seconds < FOREVER:
            self._agenda.after(seconds, self._finish, lease)

    def _block(self, what: tuple[SimulatedLease, int]) -> None:
        lease, piece = what
        if lease.alive and lease.piece == piece:
            self.tally.blocked.change(self._agenda.now, 1)
            self._head.block(lease, True)

    def _finish(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        now, tally = self._agenda.now, self.tally
        if lease.blocked:
            tally.blocked.change(now, -1)
            self._head.block(lease, False)
        tally.running.change(now, -1)
        tally.finish(lease.piece)
        lease.piece = -1
        self._next(lease)
        if not self.queue and self._requested:
            self.dispatch()

    def _end_idle(self, what: tuple[SimulatedLease, float]) -> None:
        lease, since = what
        if self._idle.get(lease) == since:
            del self._idle[lease]
            self._release(lease)

    def _release(self, lease: SimulatedLease) -> None:
        self.tally.held.change(self._agenda.now, -1)
        self._head.release(lease)
        if self.queue:
            self.dispatch()

    def _withdraw(self, _: None) -> None:
        self._withdrawing = False
        if self.queue:
            return
        for lease in list(self._requested.values()):
            if lease.grant is None:
                del self._requested[lease.request.id]
                self._head.release(lease)
