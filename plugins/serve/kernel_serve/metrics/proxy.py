"""Metrics of a proxy: the requests that it takes from outside."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection

from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.buckets import LATENCY_MS
from kernel_serve.values import ends_of_key
from kernel_spec.metric_series import CounterSeries, HistogramSeries
from kernel_spec.metrics import OTHER

WEBSOCKET = "WEBSOCKET"
"""The method under which WebSockets are counted; their status is 101 once they are accepted."""
_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", WEBSOCKET, "GRPC")
)

_PROCESS = ("proxy",)
"""The label that names the process."""


class ProxyMetrics:
    """Holds the series of one proxy. Routes are the prefixes of endpoints, never paths from a client."""

    def __init__(self, registry: MetricRegistry, proxy: str) -> None:
        labels = ("application", "deployment", "route", "method")
        self._requests = registry.counter(
            "serve_http_requests_total",
            "Requests that came to this proxy and are over, by the status they were answered with.",
            (*labels, "status", "proxy"),
            _PROCESS,
        )
        self._latency = registry.histogram(
            "serve_http_request_latency_ms",
            "Milliseconds from a request's headers to the end of its answer. WebSockets are not among them.",
            (*labels, "proxy"),
            LATENCY_MS,
            _PROCESS,
        )
        places = ("application", "deployment", "method")
        self._calls = registry.counter(
            "serve_grpc_requests_total",
            "gRPC calls that came to this proxy and are over, by the status they ended with.",
            (*places, "code", "proxy"),
            _PROCESS,
        )
        self._call_latency = registry.histogram(
            "serve_grpc_request_latency_ms",
            "Milliseconds from a gRPC call's arrival to its end.",
            (*places, "proxy"),
            LATENCY_MS,
            _PROCESS,
        )
        ongoing = registry.gauge("serve_http_ongoing_requests", "Requests that this proxy works on now.", ("proxy",))
        self.ongoing = ongoing.labelled(proxy)
        """The number of requests that the proxy works on; the code that serves a request raises and lowers it."""
        self._proxy = proxy
        self._bound: dict[tuple[str, str, str, int], tuple[CounterSeries, HistogramSeries]] = {}

    def ended(self, target: str, route: str, method: str, status: int, milliseconds: float) -> None:
        """Count a finished request to the deployment `target` ("" if it belongs to none)."""
        try:
            requests, latency = self._bound[target, route, method, status]
        except KeyError:
            requests, latency = self._bind(target, route, method, status)
        requests.value += 1
        if method != WEBSOCKET:
            latency.counts[bisect_left(LATENCY_MS, milliseconds)] += 1
            latency.total += milliseconds

    def grpc_ended(self, target: str, path: str, code: str, milliseconds: float) -> None:
        """Count a finished gRPC call; `path` is that of a method that exists."""
        place = (*ends_of_key(target), path)
        self._calls.labelled(*place, code, self._proxy).value += 1
        self._call_latency.labelled(*place, self._proxy).observe(milliseconds)

    def _bind(self, target: str, route: str, method: str, status: int) -> tuple[CounterSeries, HistogramSeries]:
        application, deployment = ends_of_key(target)
        known = method if method in _METHODS else OTHER
        labels = (application, deployment, route, known)
        requests = self._requests.labelled(*labels, str(status) if 100 <= status <= 599 else OTHER, self._proxy)
        found = requests, self._latency.labelled(*labels, self._proxy)
        if known == method:
            self._bound[target, route, method, status] = found
        return found

    def keep(self, targets: Collection[str]) -> None:
        """Remove the series of deployments that are not among these."""
        self._bound.clear()

        def wanted(values: tuple[str, ...]) -> bool:
            return not values[1] or values[0] == OTHER or "#".join(values[:2]) in targets

        self._requests.keep(wanted)
        self._latency.keep(wanted)
