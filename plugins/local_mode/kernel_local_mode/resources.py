"""The resources of the one node, their holders, and the requests that wait for them.

A task that submits or waits lends its CPU to the tasks that it submitted, as a blocked one does everywhere: in local
mode these run below it on the same stack.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from kernel.runtime.definitions import group_of
from kernel_local_mode.groups import LocalGroups
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError
from kernel_spec.ids import NodeId
from kernel_spec.placement import placement_of
from kernel_spec.resources import CPU, MEMORY, OBJECT_STORE_MEMORY, Allocation, Amounts, ResourcePool, describe
from kernel_spec.scheduling import NOWHERE

ADDRESS = "127.0.0.1"
_STORE_SHARE = 0.3
_MEMORY_SHARE = 0.7

held: ContextVar[Allocation | None] = ContextVar("kernel_local_allocation", default=None)
"""The resources that the running task holds."""


class ResourceDemand(Protocol):
    """Describes the requirements of a task or actor: by a task's shape, or an actor's options."""

    wanted: Amounts
    strategy: Any


@dataclass(slots=True)
class ResourceRequest:
    """Holds a waiting task or actor: `retry` is called, without the lock, when another try may succeed."""

    name: str
    wish: ResourceDemand
    retry: Callable[[], None]


class LocalResources:
    """Holds the pool of the one node. Methods run under the runtime's lock; `later` runs a function outside of it."""

    def __init__(
        self,
        given: Mapping[str, float],
        later: Callable[[Callable[[], None]], None],
        node: NodeId = NOWHERE,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.pool = ResourcePool(total_resources(given))
        self.groups = LocalGroups(self.pool)
        self.waiting: list[ResourceRequest] = []
        self._later = later
        self._node = node
        self._labels = labels or {}

    def acquire(self, wish: ResourceDemand) -> Allocation | None:
        """Take what is wanted, or return None and change nothing."""
        group = group_of(wish.strategy)
        if group is not None:
            return self.groups.acquire(group, wish.wanted)
        return None if self._elsewhere(wish) else self.pool.acquire(wish.wanted)

    def refusal(self, name: str, wish: ResourceDemand) -> KernelError | None:
        """Return the error with which `name` fails, because the group it is to run in will not have it."""
        group = group_of(wish.strategy)
        return self.groups.refusal(name, group, wish.wanted) if group is not None else None

    def wait(self, request: ResourceRequest) -> None:
        """Try again when something was given back."""
        self.waiting.append(request)

    def release(self, allocation: Allocation) -> None:
        """Give resources back, and retry the requests that wait."""
        self.groups.release(allocation)
        self.try_again()

    def lend_cpu(self, lent: bool) -> None:
        """Lend the CPU of the running task while it blocks or another runs on top of it, or take it back."""
        own = held.get()
        if own is not None:
            self.lend_cpu_of(own, lent)

    def lend_cpu_of(self, allocation: Allocation, lent: bool) -> None:
        """Lend the CPU of `allocation` while its holder does not need it, or take it back."""
        cpus = allocation.amounts.get(CPU, 0)
        if not cpus:
            return
        pool = self.groups.pool_of(allocation)
        if lent:
            pool.lend(CPU, cpus)
            self.try_again()
        else:
            pool.reclaim(CPU, cpus)

    def try_again(self) -> None:
        """Retry everything that waits for resources, placement groups first."""
        self.groups.place_waiting()
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self._later(request.retry)

    def infeasible(self, wish: ResourceDemand) -> str:
        """Return why a wish can never be granted, or nothing."""
        group = group_of(wish.strategy)
        if group is not None:
            return self.groups.why_never(group["group"])
        if not self.pool.fits_ever(wish.wanted):
            has = describe(self.pool.total)
            return f"it wants {describe(wish.wanted)}, and no node has that much; this one has {has}"
        return self._elsewhere(wish)

    def _elsewhere(self, wish: ResourceDemand) -> str:
        """Return why the one node is the wrong one, or nothing."""
        placement = placement_of(wish.strategy)
        if placement.problem:
            return placement.problem
        if placement.node not in (None, self._node) and not placement.soft:
            return f"it may run only on node {placement.node.hex()}, and there is only {self._node.hex()}"
        if not placement.suits(self._labels):
            return f"its conditions on labels are {placement.wanted_labels}, and the one node has {dict(self._labels)}"
        return ""

    def busy(self, wish: ResourceDemand) -> str:
        """Say what is missing now."""
        group = group_of(wish.strategy)
        if group is not None:
            return self.groups.why_not_yet(group, wish.wanted)
        missing = self.pool.missing(wish.wanted)
        if not missing:
            return "it is about to start"
        return f"it wants {describe(wish.wanted)} and lacks {describe(missing)}, held by actors and tasks that run"


def total_resources(given: Mapping[str, float]) -> dict[str, float]:
    """Return what the node offers: what was given, and for the rest what the machine has."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total: dict[str, float] = {
        CPU: float(cpus),
        MEMORY: float(int(memory * (1 - _STORE_SHARE) * _MEMORY_SHARE)),
        OBJECT_STORE_MEMORY: float(int(memory * _STORE_SHARE)),
        **{name: float(quantity) for name, quantity in given.items()},
        f"node:{ADDRESS}": 1.0,
    }
    return {name: quantity for name, quantity in total.items() if quantity > 0}
