"""The lease pools of a process: tasks of one pool share leases, and idle leases may change pools.

Tasks with large arguments have a pool for each place where the arguments lie, so that leases are requested there. The
requirements on a worker are the same in all of them: an idle lease moves to a pool that can use it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernel.runtime.definitions import UNSAID, FunctionDefinition
from kernel_engine.tasks.task import Task
from kernel_processes.runtime.leasing import LeasePool, WorkerLease
from kernel_processes.runtime.locality import home_of
from kernel_spec.placement import DEFAULT_STRATEGY

Kind = tuple[bytes, bool]
"""The key of a shape, and whether the tasks may be run again: the two sorts of tasks share no leases."""


class LeasePools:
    """Holds the pools: `plain` for tasks without large arguments, others by place. `own_place()` is this node's."""

    def __init__(self, own_place: Callable[[], str]) -> None:
        self.plain: dict[Kind, LeasePool] = {}
        self._near: dict[Kind, dict[str, LeasePool]] = {}
        self._own_place = own_place

    def of(self, task: Task) -> LeasePool:
        """Return the pool of a task; a new one if necessary."""
        kind, home = self._key(task)
        pool = self.find(task)
        if pool is None:
            definition: FunctionDefinition = task.definition  # type: ignore[assignment]
            pool = LeasePool(definition.shape, kind[1], home)
            if home:
                self._near.setdefault(kind, {})[home] = pool
            else:
                self.plain[kind] = pool
        return pool

    def find(self, task: Task) -> LeasePool | None:
        """Return the pool of a task, or None."""
        kind, home = self._key(task)
        return self._near.get(kind, {}).get(home) if home else self.plain.get(kind)

    def __iter__(self) -> Iterator[LeasePool]:
        yield from self.plain.values()
        for pools in self._near.values():
            yield from pools.values()

    def lend(self, pool: LeasePool) -> WorkerLease | None:
        """Move an idle lease into `pool` from one of the same kind, for tasks with large arguments one near those."""
        kind = pool.shape.key, pool.repeatable
        near = self._near.get(kind)
        if not near:
            return None
        plain = self.plain.get(kind)
        for other in (*near.values(), plain) if plain is not None else near.values():
            if other is pool or other.queue:
                continue
            for lease in other.leases:
                if lease.is_free and pool.home in ("", lease.place):
                    other.leases.remove(lease)
                    pool.leases.append(lease)
                    lease.pool = pool
                    return lease
        return None

    def idle_at(self, place: str) -> list[WorkerLease]:
        """Return the leases at a place that have nothing to do."""
        return [lease for pool in self for lease in pool.leases if lease.place == place and lease.is_free]

    def tidy(self) -> None:
        """Forget empty pools: each placement group has pools of its own, so they would pile up."""
        for kind in [kind for kind, pool in self.plain.items() if pool.is_empty]:
            del self.plain[kind]
        for kind, pools in list(self._near.items()):
            for home in [home for home, pool in pools.items() if pool.is_empty]:
                del pools[home]
            if not pools:
                del self._near[kind]

    def _key(self, task: Task) -> tuple[Kind, str]:
        shape = task.definition.shape  # type: ignore[union-attr]
        home = ""
        if task.holds is not None and shape.strategy in (UNSAID, DEFAULT_STRATEGY):
            home = home_of(task, self._own_place())
        return (shape.key, task.retries != 0), home
