"""Metrics of the router of a process, read from its tallies for each snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.buckets import LATENCY_MS
from kernel_serve.values import ends_of_key, key_of
from kernel_spec.metric_families import MetricFamily

if TYPE_CHECKING:
    from kernel_serve.routing.dispatcher import Dispatcher

_LABELS = ("application", "deployment", "router")
_PROCESS = ("router",)
"""The label that names the process."""


def watch_router(registry: MetricRegistry, router: str, dispatchers: Callable[[], Mapping[str, Dispatcher]]) -> None:
    """Add the metrics of a router's dispatchers; `router` is its name in the labels."""
    queued = registry.gauge(
        "serve_deployment_queued_requests", "Requests that wait in this router for a replica with room.", _LABELS
    )
    sent = registry.gauge(
        "serve_router_ongoing_requests",
        "Requests that this router has sent to replicas, and that are not over.",
        _LABELS,
    )
    routed = registry.counter(
        "serve_router_requests_total", "Requests that were given to this router.", _LABELS, _PROCESS
    )
    retried = registry.counter(
        "serve_router_retries_total",
        "Requests that this router sent once more: the replica was busy or draining, or was lost.",
        (*_LABELS, "reason"),
        _PROCESS,
    )
    failed = registry.counter(
        "serve_router_failed_requests_total",
        "Requests that this router gave up: backpressure, unavailable, timeout, cancelled, not_serving.",
        (*_LABELS, "reason"),
        _PROCESS,
    )
    waited = registry.histogram(
        "serve_router_queue_wait_ms",
        "Milliseconds that requests waited here for a replica with room; those that did not wait are not among them.",
        _LABELS,
        LATENCY_MS,
        _PROCESS,
    )

    families: tuple[MetricFamily[Any], ...] = (queued, sent, routed, retried, failed, waited)

    def collect() -> None:
        current = dispatchers()
        for family in families:
            family.keep(lambda values: values[2] != router or key_of(*values[:2]) in current)
        for key, dispatcher in current.items():
            place = (*ends_of_key(key), router)
            waiting, ongoing = dispatcher.numbers()
            queued.labelled(*place).value = waiting
            sent.labelled(*place).value = sum(ongoing.values())
            tally = dispatcher.tally
            routed.labelled(*place).value = tally.submitted
            for reason, number in tally.retried.copy().items():
                retried.labelled(*place, reason).value = number
            for reason, number in tally.failed.copy().items():
                failed.labelled(*place, reason).value = number
            series = waited.labelled(*place)
            series.counts, series.total = list(tally.waits.counts), tally.waits.total

    registry.collect_by(collect)
