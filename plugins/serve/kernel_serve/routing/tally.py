"""The counters of a dispatcher: plain numbers, which metrics read."""

from __future__ import annotations

from kernel_serve.errors import (
    BackPressureError,
    DeploymentUnavailableError,
    NotServingError,
    ReplicasDiedError,
    RequestCancelledError,
    RequestTimeoutError,
)
from kernel_serve.metrics.buckets import LATENCY_MS
from kernel_spec.metric_series import HistogramSeries

_REASONS: dict[type[Exception], str] = {
    BackPressureError: "backpressure",
    DeploymentUnavailableError: "unavailable",
    NotServingError: "not_serving",
    ReplicasDiedError: "replicas_died",
    RequestCancelledError: "cancelled",
    RequestTimeoutError: "timeout",
}


class RequestTally:
    """Counts requests that were submitted, sent again and given up (by reason), and how long some waited."""

    __slots__ = ("failed", "retried", "submitted", "waits")

    def __init__(self) -> None:
        self.submitted = 0
        self.retried: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.waits = HistogramSeries(LATENCY_MS)

    def retry(self, reason: str) -> None:
        """Count a request that is sent again."""
        self.retried[reason] = self.retried.get(reason, 0) + 1

    def fail(self, error: Exception) -> None:
        """Count a request that was given up."""
        reason = _REASONS.get(type(error), "other")
        self.failed[reason] = self.failed.get(reason, 0) + 1
