"""Who holds what: a node's resources, its leases, and what is kept free on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernel_scheduler_fifo.lines import Line
from kernel_scheduler_fifo.placement import Placement
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import CPU, Allocation, Amounts, ResourcePool
from kernel_spec.scheduling import Grant, LeaseRequest

RESERVATION_SECONDS = 30.0
"""How long resources are kept for one request before others get a turn again."""


@dataclass(slots=True)
class Lease:
    """A granted lease. `lent` is the CPU (in units) that others may use while it is blocked."""

    request: LeaseRequest
    grant: Grant
    number: int
    blocked: bool = False
    asked_in: int = 0

    @property
    def lent(self) -> int:
        """Units of CPU that are lent to others."""
        return self.grant.allocation.amounts.get(CPU, 0) if self.blocked else 0

    def stuck_amounts(self) -> Amounts:
        """Return what can't be expected back soon: an actor's own, and what a blocked worker has not lent."""
        if not (self.blocked or self.request.for_actor):
            return {}
        held = self.grant.allocation.amounts
        return {name: units for name, units in held.items() if not (self.blocked and name == CPU)}


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is freed on a node is kept for the front of `line`, the request `id`, until `until` (seconds)."""

    line: Line
    id: LeaseId
    number: int
    until: float


@dataclass(slots=True)
class NodeState:
    """One node. `number` counts nodes in the order they came."""

    id: NodeId
    number: int
    pool: ResourcePool
    labels: Mapping[str, str]
    leases: dict[LeaseId, Lease] = field(default_factory=dict)
    stuck: Amounts = field(default_factory=dict)
    reservation: Reservation | None = None

    def load(self) -> float:
        """Return how full the node is: the used share of its scarcest resource, 0 to 1 (more when overcommitted)."""
        total, free = self.pool.total, self.pool.available
        shares = [1 - free.get(name, 0) / units for name, units in total.items()]
        return max(shares, default=0.0) + len(self.leases) * 1e-9  # leases of nothing break ties

    def acquire(self, wanted: Amounts, number: int) -> Allocation | None:
        """Take `wanted` for the request that arrived as `number`-th, unless it is kept for an older one."""
        if self.reservation is not None and not self._leaves_reserved(wanted, number):
            return None
        return self.pool.acquire(wanted)

    def _leaves_reserved(self, wanted: Amounts, number: int) -> bool:
        assert self.reservation is not None
        if number <= self.reservation.number:
            return True
        for name, kept in self.reservation.line.wanted.items():
            units = wanted.get(name, 0)
            if not units:
                continue
            # A share of a device could break up the whole one that is waited for, so no arithmetic there.
            if name in self.pool.device_resources or self.pool.available.get(name, 0) - units < kept:
                return False
        return True

    def could_free(self, wanted: Amounts) -> bool:
        """Return whether `wanted` would fit once every lease that may end on its own has ended."""
        if not self.pool.fits_ever(wanted):
            return False
        total = self.pool.total
        return all(total.get(name, 0) - self.stuck.get(name, 0) >= units for name, units in wanted.items())

    def add(self, lease: Lease) -> None:
        """Note a lease whose allocation was acquired."""
        self.leases[lease.request.id] = lease
        self._count_stuck(lease, 1)

    def remove(self, lease: Lease) -> None:
        """End a lease and free what it holds, taking back first what it has lent."""
        self.set_blocked(lease, False)
        self._count_stuck(lease, -1)
        del self.leases[lease.request.id]
        self.pool.release(lease.grant.allocation)

    def set_blocked(self, lease: Lease, blocked: bool) -> None:
        """Lend the lease's CPU to others, or take it back at once."""
        if lease.blocked == blocked:
            return
        self._count_stuck(lease, -1)
        if not blocked:
            self.pool.reclaim(CPU, lease.lent)
        lease.blocked = blocked
        if blocked:
            self.pool.lend(CPU, lease.lent)
        self._count_stuck(lease, 1)

    def _count_stuck(self, lease: Lease, sign: int) -> None:
        for name, units in lease.stuck_amounts().items():
            self.stuck[name] = self.stuck.get(name, 0) + sign * units


def allowed_nodes(
    placement: Placement, wanted: Amounts, candidates: Iterable[NodeState], nodes: Mapping[NodeId, NodeState]
) -> list[NodeState]:
    """Return those of `candidates` where a request may go, the one to try first in front.

    Without a strategy that is the order in which nodes came: the first one is the local one, and filling one node
    before the next leaves whole nodes for large requests. A soft affinity counts as long as its node could ever
    hold the request.
    """
    if placement.node is not None:
        target = nodes.get(placement.node)
        if not placement.soft or (target is not None and target.pool.fits_ever(wanted)):
            return [node for node in candidates if node is target]
    key = (lambda node: (node.load(), node.number)) if placement.spread else (lambda node: node.number)
    return sorted(candidates, key=key)
