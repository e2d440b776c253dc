"""Actors: each holds one lease for its life."""

from __future__ import annotations

from collections.abc import Callable

from kernel_simulation.agenda import Agenda
from kernel_simulation.distributions import FOREVER
from kernel_simulation.head import SimulatedHead, SimulatedLease
from kernel_simulation.measures import Tally
from kernel_spec.scheduling import LeaseRequest


class Actors:
    """All actors of one class. `make_request` returns a new request for one."""

    def __init__(
        self,
        tally: Tally,
        head: SimulatedHead,
        agenda: Agenda,
        make_request: Callable[[], LeaseRequest],
        grant_seconds: float,
    ) -> None:
        self.tally = tally
        self._head = head
        self._agenda = agenda
        self._make_request = make_request
        self._grant_seconds = grant_seconds
        self._piece_of: dict[SimulatedLease, int] = {}

    def create(self, piece: int) -> None:
        """Request the lease of an actor, be it new or restarted."""
        lease = SimulatedLease(self._make_request(), self)
        self._piece_of[lease] = piece
        self._head.request(lease)

    # -- what the head says ----------------------------------------------------------------------------------------

    def granted(self, lease: SimulatedLease) -> None:
        """Start the worker of an actor."""
        self.tally.held.change(self._agenda.now, 1)
        self._agenda.after(self._grant_seconds, self._live, lease)

    def asked_back(self, lease: SimulatedLease) -> None:
        """Do nothing: an actor keeps its lease until it ends, also on a node that drains."""

    def ended(self, lease: SimulatedLease, preempted: bool) -> None:
        """Restart an actor whose worker is gone, if it has restarts left."""
        now = self._agenda.now
        piece = self._piece_of.pop(lease)
        self.tally.held.change(now, -1)
        if lease.piece < 0:
            self.create(piece)
            return
        self.tally.running.change(now, -1)
        if self.tally.lose(piece, now - lease.begun, preempted):
            self.create(piece)

    # -- what the workers do ---------------------------------------------------------------------------------------

    def _live(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        now = self._agenda.now
        lease.piece = self._piece_of[lease]
        lease.begun = now
        self.tally.running.change(now, 1)
        self.tally.start(lease.piece, now)
        seconds = self.tally.durations[lease.piece]
        if seconds < FOREVER:
            self._agenda.after(seconds, self._leave, lease)

    def _leave(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        now = self._agenda.now
        self.tally.running.change(now, -1)
        self.tally.held.change(now, -1)
        self.tally.finish(self._piece_of.pop(lease))
        self._head.release(lease)
