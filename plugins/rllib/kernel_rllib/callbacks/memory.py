"""Report how much memory the processes take, as custom metrics, to find leaks."""

from __future__ import annotations

import os
import tracemalloc
from typing import Any

from kernel_rllib.callbacks.callbacks import DefaultCallbacks

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
TOP = 10
"""The number of places in the code that are reported: those that hold the most memory."""


class MemoryTrackingCallbacks(DefaultCallbacks):
    """Reports, with each episode, the memory of its runner's process, and the lines of code that hold most of it.

    Custom metrics are `tracemalloc/<file>:<line>/size` and `/count` for the ten lines that hold most bytes, and
    `tracemalloc/worker/rss` and `/vms`, in bytes. It slows sampling down: Python traces each allocation.
    """

    def on_sub_environment_created(self, **_: Any) -> None:
        """Begin to trace, before the first episode."""
        if not tracemalloc.is_tracing():
            tracemalloc.start(1)

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        """Report."""
        resident, virtual = process_memory()
        episode.custom_metrics |= {"tracemalloc/worker/rss": resident, "tracemalloc/worker/vms": virtual}
        for found in tracemalloc.take_snapshot().statistics("lineno")[:TOP]:
            frame = found.traceback[0]
            name = f"tracemalloc/{frame.filename}:{frame.lineno}"
            episode.custom_metrics |= {f"{name}/size": found.size, f"{name}/count": found.count}


def process_memory() -> tuple[int, int]:
    """Return how many bytes this process has in memory, and how many it has addresses for; 0 where that is unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            virtual, resident = file.read().split()[:2]
    except OSError:
        return 0, 0
    return int(resident) * PAGE, int(virtual) * PAGE
