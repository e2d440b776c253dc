"""Gangs: each has a placement group and runs one task in every bundle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kernel_simulation.agenda import Agenda
from kernel_simulation.distributions import FOREVER
from kernel_simulation.head import SimulatedGroup, SimulatedHead, SimulatedLease
from kernel_simulation.measures import Tally
from kernel_spec.scheduling import Bundle, GroupRequest, LeaseRequest

MakeGroup = Callable[[], GroupRequest]
MakeRequest = Callable[[GroupRequest, int], LeaseRequest]


class Gangs:
    """All gangs of one class.

    `make_group` returns a new request for a placement group, `make_request` one for a lease in a bundle of it.
    """

    def __init__(
        self,
        tally: Tally,
        head: SimulatedHead,
        agenda: Agenda,
        make_group: MakeGroup,
        make_request: MakeRequest,
        grant_seconds: float,
    ) -> None:
        self.tally = tally
        self.head = head
        self.agenda = agenda
        self.make_request = make_request
        self.grant_seconds = grant_seconds
        self._make_group = make_group

    def create(self, piece: int) -> None:
        """Request the placement group of a new gang."""
        gang = Gang(self, piece)
        gang.group = SimulatedGroup(self._make_group(), gang, {})
        self.head.request_group(gang.group)


class Gang:
    """One gang: begins when a task runs in each of its bundles, and is done when all of them are."""

    group: SimulatedGroup

    def __init__(self, gangs: Gangs, piece: int) -> None:
        self.tally = gangs.tally
        self._gangs = gangs
        self._head = gangs.head
        self._agenda = gangs.agenda
        self._piece = piece
        self._leases: dict[int, SimulatedLease] = {}
        self._begun: set[int] = set()
        self._done: set[int] = set()
        self._held = False
        self._over = False

    # -- what the head says ----------------------------------------------------------------------------------------

    def placed(self, group: SimulatedGroup, bundles: Iterable[Bundle]) -> None:
        """Request a lease in each bundle whose task has not ended."""
        if not self._held:
            self._held = True
            self.tally.held.change(self._agenda.now, 1)
        for bundle in bundles:
            if bundle.index not in self._done and bundle.index not in self._leases:
                self._request(bundle.index)

    def granted(self, lease: SimulatedLease) -> None:
        """Start the worker of a bundle."""
        self._agenda.after(self._gangs.grant_seconds, self._run, lease)

    def asked_back(self, lease: SimulatedLease) -> None:
        """Do nothing: a gang keeps its leases until it ends, also on a node that drains."""

    def ended(self, lease: SimulatedLease, preempted: bool) -> None:
        """Run a lost task of the gang again, or end the gang as failed if it has no retries left."""
        index = lease.request.bundle
        del self._leases[index]
        if lease.piece >= 0:
            now = self._agenda.now
            self.tally.running.change(now, -1)
            if not self._over and not self.tally.lose(self._piece, now - lease.begun, preempted, index):
                self._over = True
                self._agenda.after(0.0, self._end, None)
        if not self._over and index in self.group.bundles:
            self._request(index)

    # -- what the workers do ---------------------------------------------------------------------------------------

    def _request(self, index: int) -> None:
        lease = self._leases[index] = SimulatedLease(self._gangs.make_request(self.group.request, index), self)
        self._head.request(lease)

    def _run(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        now = self._agenda.now
        lease.piece = self._piece
        lease.begun = now
        self.tally.running.change(now, 1)
        self._begun.add(lease.request.bundle)
        if len(self._begun) == len(self.group.request.bundles):
            self.tally.start(self._piece, now)
        seconds = self.tally.durations[self._piece]
        if seconds < FOREVER:
            self._agenda.after(seconds, self._finish, lease)

    def _finish(self, lease: SimulatedLease) -> None:
        if not lease.alive:
            return
        index = lease.request.bundle
        del self._leases[index]
        self.tally.running.change(self._agenda.now, -1)
        self._done.add(index)
        self._head.release(lease)
        if len(self._done) == len(self.group.request.bundles):
            self.tally.finish(self._piece)
            self._end(None)

    def _end(self, _: None) -> None:
        """Give everything back."""
        for lease in list(self._leases.values()):
            if lease.piece >= 0:
                self.tally.running.change(self._agenda.now, -1)
            self._head.release(lease)
        self._leases.clear()
        self._head.remove_group(self.group)
        self.tally.held.change(self._agenda.now, -1)
