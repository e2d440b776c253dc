"""Metrics of a replica: the requests that it carries out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.buckets import LATENCY_MS

CANCELLED = 499
"""The status of a request whose caller has gone."""

_LABELS = ("application", "deployment", "replica")
_PROCESS = ("replica",)
"""The label that names the process."""


class KindMetrics:
    """Holds the series of one type of requests: "http", "call", ..."""

    __slots__ = ("cancelled", "errors", "latency", "requests")

    def __init__(self, metrics: ReplicaMetrics, kind: str) -> None:
        place = metrics.place
        self.requests = metrics.requests.labelled(*place, kind)
        self.errors = metrics.errors.labelled(*place, kind)
        self.cancelled = metrics.cancelled.labelled(*place, kind)
        self.latency = metrics.latency.labelled(*place, kind)

    def ended(self, status: int, milliseconds: float) -> None:
        """Count a finished request.

        `status` is that of its answer; other types than HTTP have the corresponding HTTP status.
        """
        self.requests.value += 1
        latency = self.latency
        latency.counts[bisect_left(LATENCY_MS, milliseconds)] += 1
        latency.total += milliseconds
        if status >= 500:
            self.errors.value += 1
        elif status == CANCELLED:
            self.cancelled.value += 1


class ReplicaMetrics:
    """Holds the metric families of one replica."""

    def __init__(self, registry: MetricRegistry, application: str, deployment: str, replica: str) -> None:
        self.place = (application, deployment, replica)
        self._registry = registry
        self.requests = registry.counter(
            "serve_deployment_requests_total",
            "Requests that this replica has carried out.",
            (*_LABELS, "type"),
            _PROCESS,
        )
        self.errors = registry.counter(
            "serve_deployment_errors_total",
            "Requests among them that raised, or were answered with a status from 500 on.",
            (*_LABELS, "type"),
            _PROCESS,
        )
        self.cancelled = registry.counter(
            "serve_deployment_cancelled_total",
            "Requests among them whose callers had gone before the end.",
            (*_LABELS, "type"),
            _PROCESS,
        )
        self.latency = registry.histogram(
            "serve_deployment_request_latency_ms",
            "Milliseconds that this replica took for a request, from its arrival here to the end of its answer.",
            (*_LABELS, "type"),
            LATENCY_MS,
            _PROCESS,
        )
        self._refused = registry.counter(
            "serve_replica_refused_total",
            "Requests that this replica did not begin: it was busy, or draining. Routers send them elsewhere.",
            (*_LABELS, "reason"),
            _PROCESS,
        )

    def kind(self, kind: str) -> KindMetrics:
        """Return the series of a type of requests. Keep them."""
        return KindMetrics(self, kind)

    def refused(self, reason: str) -> None:
        """Count a request that was refused."""
        self._refused.labelled(*self.place, reason).value += 1

    def watch(self, ongoing: Callable[[], int], limit: Callable[[], int], models: Callable[[], Any]) -> None:
        """Add the numbers of running and allowed requests, and of loaded multiplexed models."""
        now = self._registry.gauge(
            "serve_deployment_ongoing_requests", "Requests that this replica works on now.", _LABELS
        ).labelled(*self.place)
        most = self._registry.gauge(
            "serve_deployment_max_ongoing_requests", "How many it works on at most.", _LABELS
        ).labelled(*self.place)
        loaded = self._registry.gauge(
            "serve_multiplexed_models", "Multiplexed models that this replica has loaded.", _LABELS
        ).labelled(*self.place)

        def collect() -> None:
            now.value, most.value, loaded.value = ongoing(), limit(), len(models())

        self._registry.collect_by(collect)
