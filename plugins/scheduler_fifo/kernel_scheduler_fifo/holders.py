"""The number of reclaimable leases of each holder."""

from __future__ import annotations

from collections.abc import Hashable

from kernel_spec.holdings import Lease
from kernel_spec.ids import LeaseId
from kernel_spec.scheduling import LeaseRequest

Kind = Hashable


def kind_of(request: LeaseRequest) -> Kind:
    """Return what a lease can stand in for: the same process's requests for the same kind of worker."""
    wanted = frozenset(request.wanted.items())
    hints = repr(sorted(request.hints.items(), key=lambda item: str(item[0]))) if request.hints else ""
    strategy = request.strategy if isinstance(request.strategy, str) else repr(sorted(request.strategy.items()))
    inside = request.group, request.bundle
    near = max(request.locality, key=request.locality.__getitem__, default=None)
    work = request.environment, request.for_actor, request.preemptible, near
    return request.requester, wanted, strategy, hints, work, inside


class Holders:
    """Leases by kind, actors' left out. A lease that was asked back counts as gone until the next episode."""

    def __init__(self) -> None:
        self.by_kind: dict[Kind, dict[LeaseId, Lease]] = {}
        self.asked: dict[LeaseId, Lease] = {}
        self._kinds: dict[LeaseId, Kind] = {}

    def add(self, lease: Lease) -> None:
        """A lease was granted."""
        if not lease.request.for_actor:
            kind = self._kinds[lease.request.id] = kind_of(lease.request)
            self.by_kind.setdefault(kind, {})[lease.request.id] = lease

    def remove(self, lease: Lease) -> None:
        """A lease is over."""
        kind = self._kinds.pop(lease.request.id, None)
        if kind is not None and self.asked.pop(lease.request.id, None) is None:
            self._take(kind, lease)

    def ask(self, lease: Lease) -> None:
        """A lease is asked back."""
        self._take(self._kinds[lease.request.id], lease)
        self.asked[lease.request.id] = lease

    def begin_episode(self) -> None:
        """Nobody waits any more: whoever was asked and still holds something may be asked again."""
        for id, lease in self.asked.items():
            self.by_kind.setdefault(self._kinds[id], {})[id] = lease
        self.asked.clear()

    def count(self, kind: Kind) -> int:
        """Return how many leases of a kind are held and not asked back."""
        return len(self.by_kind.get(kind, ()))

    def kind(self, lease: Lease) -> Kind:
        """Return the kind of a lease that was added."""
        return self._kinds[lease.request.id]

    def _take(self, kind: Kind, lease: Lease) -> None:
        held = self.by_kind[kind]
        del held[lease.request.id]
        if not held:
            del self.by_kind[kind]
