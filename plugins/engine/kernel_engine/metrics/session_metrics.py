"""Make the metrics of a whole session from the numbers of status queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kernel_spec.dataclass import dataclass
from kernel_spec.metrics import GAUGE, FamilySnapshot, MetricsSnapshot

_STORE = {
    "capacity": ("kernel_object_store_capacity_bytes", "Bytes that object stores may hold in memory."),
    "used": ("kernel_object_store_used_bytes", "Bytes of objects in the memory of object stores."),
    "pinned": ("kernel_object_store_pinned_bytes", "Bytes of objects that can't be spilled now."),
    "spilled": ("kernel_object_store_spilled_bytes", "Bytes of objects that are spilled now."),
    "objects": ("kernel_object_store_objects", "Objects in object stores."),
    "overflow": ("kernel_object_store_overflow_bytes", "Bytes of objects in overflow files."),
}


@dataclass(frozen=True, slots=True)
class SessionNumbers:
    """Holds the numbers of a session at one moment.

    `nodes`, `workers` and `actors` are the state of each. `stores` are the sums over all object stores, `total` and
    `available` the resources in plain quantities. `waiting` is the number of requests that wait for a worker, `leases`
    that of the leases, `silent` that of the processes that did not answer.
    """

    nodes: Iterable[str]
    workers: Iterable[str]
    actors: Iterable[str]
    stores: Mapping[str, int]
    total: Mapping[str, float]
    available: Mapping[str, float]
    waiting: int
    leases: int
    silent: int


def session_snapshot(numbers: SessionNumbers) -> MetricsSnapshot:
    """Return the metrics of these numbers."""
    families = [
        _by_label("kernel_nodes", "Nodes of the session.", "state", Counter(numbers.nodes)),
        _by_label("kernel_workers", "Worker processes.", "state", Counter(numbers.workers)),
        _by_label("kernel_actors", "Actors.", "state", Counter(numbers.actors)),
        _by_label("kernel_resources", "Resources of all nodes.", "resource", numbers.total),
        _by_label("kernel_resources_available", "Resources that are free.", "resource", numbers.available),
        _one("kernel_leases", "Leases that are granted or asked for.", numbers.leases),
        _one("kernel_leases_waiting", "Requests for a lease that wait.", numbers.waiting),
        _one("kernel_metrics_silent_processes", "Processes that did not answer in time.", numbers.silent),
    ]
    families += [_one(*_STORE[name], number) for name, number in numbers.stores.items() if name in _STORE]
    return MetricsSnapshot("session", families)


def _by_label(name: str, description: str, label: str, found: Mapping[str, float]) -> FamilySnapshot:
    return FamilySnapshot(name, GAUGE, description, (label,), (), [((key,), number) for key, number in found.items()])


def _one(name: str, description: str, number: float) -> FamilySnapshot:
    return FamilySnapshot(name, GAUGE, description, (), (), [((), number)])
