"""Metrics of every process of Serve: memory, processor time, and the delay of its data loop."""

from __future__ import annotations

import asyncio
import os
import time

from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.registry import ServeRegistry

_LABELS = ("component", "id")
_PROCESS = ("id",)
"""The label that names the process."""
_TICK_SECONDS = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LAG_MS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)


def watch_process(registry: ServeRegistry, component: str, id: str) -> None:
    """Add the metrics of this process, and mark it as a part of Serve.

    `component` is "proxy", "replica" or "controller".
    """
    registry.is_asked = True
    place = (component, id)
    memory = registry.gauge("serve_process_memory_bytes", "Memory that the process has in RAM.", _LABELS)
    processor = registry.counter(
        "serve_process_cpu_seconds_total", "Processor time that the process took.", _LABELS, _PROCESS
    )
    started = registry.gauge("serve_process_start_time_seconds", "When it began, since 1970.", _LABELS)
    started.labelled(*place).value = time.time()
    in_ram, took = memory.labelled(*place), processor.labelled(*place)

    def collect() -> None:
        in_ram.value, took.value = resident_bytes(), time.process_time()

    registry.collect_by(collect)


def watch_loop(registry: MetricRegistry, component: str, id: str, loop: asyncio.AbstractEventLoop) -> None:
    """Measure, once a second, how late `loop` runs its timers. Call it on that loop."""
    lag = registry.histogram(
        "serve_event_loop_lag_ms",
        "Milliseconds that the loop which all requests of this process need was late, looked at once a second.",
        _LABELS,
        _LAG_MS,
        _PROCESS,
    ).labelled(component, id)

    def tick(due: float) -> None:
        now = loop.time()
        lag.observe(max(now - due, 0.0) * 1e3)
        loop.call_later(_TICK_SECONDS, tick, now + _TICK_SECONDS)

    loop.call_later(_TICK_SECONDS, tick, loop.time() + _TICK_SECONDS)


def resident_bytes() -> int:
    """Return the memory of this process in RAM, in bytes; 0 where that can't be found out."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0
