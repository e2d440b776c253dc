"""What the one node has, who holds it, and who waits for it.

A task that submits or waits lends its CPU to what it submitted, as a blocked one does everywhere: in local mode it
runs below it on the same stack.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from kernel_spec.resources import CPU, MEMORY, OBJECT_STORE_MEMORY, Allocation, Amounts, ResourcePool, describe

ADDRESS = "127.0.0.1"
_STORE_SHARE = 0.3
_MEMORY_SHARE = 0.7

held: ContextVar[Allocation | None] = ContextVar("kernel_local_allocation", default=None)
"""What the running task holds."""


@dataclass(slots=True)
class Request:
    """Somebody who waits: `retry` is called, without the lock, when it may be worth another try."""

    name: str
    wanted: Amounts
    retry: Callable[[], None]


class LocalResources:
    """The pool of the one node. Every method runs under the runtime's lock; `later` runs a function outside of it."""

    def __init__(self, given: Mapping[str, float], later: Callable[[Callable[[], None]], None]) -> None:
        self.pool = ResourcePool(total_resources(given))
        self.waiting: list[Request] = []
        self._later = later

    def acquire(self, wanted: Amounts) -> Allocation | None:
        """Take `wanted`, or return None and change nothing."""
        return self.pool.acquire(wanted)

    def wait(self, request: Request) -> None:
        """Try again when something was given back."""
        self.waiting.append(request)

    def release(self, allocation: Allocation) -> None:
        """Give back, and let those who wait try again."""
        self.pool.release(allocation)
        self.try_again()

    def lend_cpu(self, lent: bool) -> None:
        """The running task blocks, or something runs on top of it (or no longer does)."""
        own = held.get()
        if own is not None:
            self.lend_cpu_of(own, lent)

    def lend_cpu_of(self, allocation: Allocation, lent: bool) -> None:
        """The holder of `allocation` does not need its CPU for a while (or needs it again)."""
        cpus = allocation.amounts.get(CPU, 0)
        if not cpus:
            return
        if lent:
            self.pool.lend(CPU, cpus)
            self.try_again()
        else:
            self.pool.reclaim(CPU, cpus)

    def try_again(self) -> None:
        """Wake everybody who waits."""
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            self._later(request.retry)

    def infeasible(self, wanted: Amounts) -> str:
        """Return why `wanted` can never be had, or nothing."""
        if self.pool.fits_ever(wanted):
            return ""
        return f"it wants {describe(wanted)}, and no node has that much; this one has {describe(self.pool.total)}"

    def busy(self, wanted: Amounts) -> str:
        """Say what is missing now."""
        missing = describe(self.pool.missing(wanted))
        return f"it wants {describe(wanted)} and lacks {missing}, held by actors and tasks that run"


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
