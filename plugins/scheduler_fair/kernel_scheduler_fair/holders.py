"""Holders of leases, grouped by what they have in common: one to ask is found without looking at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from kernel_scheduler_fair.accounts import Account
from kernel_scheduler_fair.request_profiles import ProfileKey, RequestProfile
from kernel_spec.dataclass import dataclass
from kernel_spec.holdings import Lease
from kernel_spec.ids import LeaseId, ProcessId
from kernel_spec.scheduling import LeaseRequest


def kind_key(profile: RequestProfile, request: LeaseRequest) -> ProfileKey:
    """Return what makes one lease as good as another for the process that holds it."""
    return ProfileKey(profile.key, request.requester, request.environment, request.for_actor, request.preemptible)


@dataclass(slots=True, eq=False)
class Kind:
    """Leases alike of one process, in the order they were granted."""

    key: ProfileKey
    profile: RequestProfile
    requester: ProcessId
    for_actor: bool
    preemptible: bool
    leases: dict[LeaseId, Lease] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        """The account that pays for them."""
        return self.profile.account

    @property
    def priority(self) -> float:
        """The importance of the leases."""
        return self.profile.priority


class Holders:
    """All granted leases, by kind."""

    def __init__(self) -> None:
        self._kinds: dict[ProfileKey, Kind] = {}
        self._kind_of: dict[LeaseId, Kind] = {}
        self._of_process: dict[tuple[Account, ProcessId], int] = {}
        self._of_queue: dict[ProfileKey, int] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def add(self, lease: Lease, profile: RequestProfile) -> None:
        """Note a lease that was granted on these terms."""
        request = lease.request
        key = kind_key(profile, request)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(key, profile, request.requester, request.for_actor, request.preemptible)
        kind.leases[request.id] = lease
        self._kind_of[request.id] = kind
        self._count(kind, 1)

    def remove(self, lease: Lease) -> None:
        """Note that a lease is over."""
        kind = self._kind_of.pop(lease.request.id)
        del kind.leases[lease.request.id]
        self._count(kind, -1)
        if not kind.leases:
            del self._kinds[kind.key]

    def kind_of(self, lease: Lease) -> Kind:
        """Return the kind of a lease that is held."""
        return self._kind_of[lease.request.id]

    def held_by(self, account: Account, process: ProcessId) -> int:
        """Return how many leases a process holds on an account, actors' not counted."""
        return self._of_process.get((account, process), 0)

    def held_in_queue(self, profile: RequestProfile) -> int:
        """Return how many leases were granted on these terms and are still held."""
        return self._of_queue.get(profile.key, 0)

    def _count(self, kind: Kind, by: int) -> None:
        queue = self._of_queue[kind.profile.key] = self._of_queue.get(kind.profile.key, 0) + by
        if not queue:
            del self._of_queue[kind.profile.key]
        if kind.for_actor:
            return
        process = kind.account, kind.requester
        held = self._of_process[process] = self._of_process.get(process, 0) + by
        if not held:
            del self._of_process[process]
