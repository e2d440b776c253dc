"""Read the metrics of one process: the counts of its code, and the calls that it waits for."""

from __future__ import annotations

import sys

from kernel_spec.metrics import COUNTER, GAUGE, FamilySnapshot, MetricsSnapshot

_REGISTRY = "kernel.metrics.registry"


def process_snapshot(origin: str, running: int, failed: int) -> MetricsSnapshot:
    """Return a snapshot of this process, which is named `origin`.

    `running` of the calls that it submitted are sent and have not ended, `failed` have ended with an error.
    """
    return MetricsSnapshot(
        origin,
        [
            *counted_here(),
            FamilySnapshot(
                "kernel_calls_running",
                GAUGE,
                "Tasks and calls of actors that were sent to where they run, and have not ended.",
                (),
                (),
                [((), running)],
            ),
            FamilySnapshot(
                "kernel_calls_failed_total",
                COUNTER,
                "Tasks and calls of actors that ended with an error or were cancelled.",
                (),
                (),
                [((), failed)],
            ),
        ],
    )


def counted_here() -> list[FamilySnapshot]:
    """Return what code in this process has counted.

    Where nothing has imported the registry there is nothing in it, and it is not loaded for that.
    """
    if _REGISTRY not in sys.modules:
        return []
    from kernel.metrics.registry import REGISTRY

    return REGISTRY.snapshot().families
