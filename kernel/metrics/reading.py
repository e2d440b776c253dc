"""The metrics of a whole session, as rows and as text."""

from __future__ import annotations

from typing import Any

from kernel.api.session import ensure_session
from kernel_spec.metric_text import exposition
from kernel_spec.metrics import MetricsSnapshot, merged, rows


def collect(name: str | None = None) -> list[dict[str, Any]]:
    """Return a row per series of all processes of the session, by name: `name`, `kind`, `tags`, `value`, ...

    With `name` only those of that metric. Counters and histograms include what ended processes counted. A histogram's
    row has also `sum` and `buckets`, and `value` is how many values there were. Processes that do not answer within
    two seconds are missing: `kernel_metrics_silent_processes` says how many.
    """
    found, _ = merged(_snapshots())
    return rows(family for family in found if name in (None, family.name))


def prometheus_text() -> str:
    """Return what `collect` returns as text that Prometheus reads (exposition format 0.0.4)."""
    return exposition(_snapshots())


def _snapshots() -> list[MetricsSnapshot]:
    found: list[MetricsSnapshot] = ensure_session().query("metrics")
    return found
