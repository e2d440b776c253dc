"""The metrics of a whole session, as rows and as text."""

from __future__ import annotations

from typing import Any

from kernel.api.session import ensure_session
from kernel_spec.metric_text import exposition
from kernel_spec.metrics import MetricsSnapshot, merged, rows


def collect(name: str | None = None) -> list[dict[str, Any]]:
    """Return a row per series of all processes of the session, by name: `name`, `kind`, `tags`, `value`, ...

    With `name` only rows of that metric are returned. Counters and histograms include processes that have ended. A
    histogram's row also has `sum` and `buckets`, and its `value` is the number of observed values. Processes that do
    not answer within two seconds are missing; `kernel_metrics_silent_processes` is their number.
    """
    found, _ = merged(_snapshots())
    return rows(family for family in found if name in (None, family.name))


def prometheus_text() -> str:
    """Return the metrics of `collect` in Prometheus's text format (exposition format 0.0.4)."""
    return exposition(_snapshots())


def _snapshots() -> list[MetricsSnapshot]:
    found: list[MetricsSnapshot] = ensure_session().query("metrics")
    return found
