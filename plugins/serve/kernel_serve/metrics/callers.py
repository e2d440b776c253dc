"""Metrics of programs, tasks and actors that call handles. Serve can't ask these processes, so they report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kernel.metrics.registry import REGISTRY as SESSION_REGISTRY
from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.registry import REGISTRY
from kernel_serve.metrics.routers import watch_router
from kernel_spec.metrics import FamilySnapshot, MetricsSnapshot

if TYPE_CHECKING:
    from kernel_serve.routing.dispatcher import Dispatcher

TELL_SECONDS = 10.0
"""Seconds between two reports of a process whose metrics have not changed."""
KEPT_SECONDS = 3 * TELL_SECONDS
"""Seconds after which the controller takes a process that stopped reporting to have ended."""


class CallerMetrics:
    """Reports the metrics of the router of this process, named `name`, unless the process is a part of Serve.

    The kernel's registry includes them after `show`, and the router reports them to the controller.
    """

    def __init__(self, name: str, dispatchers: Callable[[], Mapping[str, Dispatcher]]) -> None:
        self._registry = MetricRegistry()
        watch_router(self._registry, name, dispatchers)

    def snapshot(self) -> MetricsSnapshot | None:
        """Return the metrics as they are now; None in a part of Serve, which shows its router itself."""
        return None if REGISTRY.is_asked else self._registry.snapshot()

    def show(self) -> None:
        """Have the kernel's registry include these metrics, instead of those that it included before."""
        global _shown
        _shown = self


_shown: CallerMetrics | None = None


def _shown_families() -> list[FamilySnapshot]:
    snapshot = _shown.snapshot() if _shown is not None else None
    return snapshot.families if snapshot is not None else []


SESSION_REGISTRY.include(_shown_families)


class CallerSnapshots:
    """Keeps the latest metrics of each process that reports its own."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, MetricsSnapshot]] = {}

    def take(self, now: float, snapshot: MetricsSnapshot) -> None:
        """Keep what a process reported, as its latest metrics."""
        self._latest[snapshot.origin] = (now, snapshot)

    def snapshots(self, now: float) -> list[MetricsSnapshot]:
        """Return the metrics of the processes that have not ended, as far as is known."""
        self._latest = {origin: told for origin, told in self._latest.items() if now - told[0] <= KEPT_SECONDS}
        return [snapshot for _, snapshot in self._latest.values()]
