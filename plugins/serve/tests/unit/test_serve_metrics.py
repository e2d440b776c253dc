"""Counting, snapshots of what was counted, and their text."""

from __future__ import annotations

from typing import Any

from kernel_serve.metrics.controller import ControllerMetrics
from kernel_serve.metrics.proxy import WEBSOCKET, ProxyMetrics
from kernel_serve.metrics.replica import CANCELLED, ReplicaMetrics

from kernel.metrics.registry import MetricRegistry


def samples(registry: MetricRegistry, name: str) -> dict[tuple[str, ...], Any]:
    (family,) = [each for each in registry.snapshot().families if each.name == name]
    return dict(family.samples)


def test_a_proxy_counts_by_route_and_never_by_what_the_client_sent() -> None:
    registry = MetricRegistry()
    metrics = ProxyMetrics(registry, "p")
    metrics.ended("app#Model", "/m", "GET", 200, 3.0)
    metrics.ended("app#Model", "/m", "GET", 200, 4.0)
    metrics.ended("app#Model", "/m", WEBSOCKET, 101, 9e9)
    for number in range(50):
        metrics.ended("", "", f"ODD{number}", 404, 1.0)
    metrics.ended("app#Model", "/m", "GET", 0, 1.0)
    counted = samples(registry, "serve_http_requests_total")
    assert counted == {
        ("app", "Model", "/m", "GET", "200", "p"): 2,
        ("app", "Model", "/m", WEBSOCKET, "101", "p"): 1,
        ("", "", "", "other", "404", "p"): 50,
        ("app", "Model", "/m", "GET", "other", "p"): 1,
    }
    latency = samples(registry, "serve_http_request_latency_ms")
    assert sum(latency["app", "Model", "/m", WEBSOCKET, "p"][0]) == 0
    assert latency["app", "Model", "/m", "GET", "p"][1] == 8.0
    metrics.keep(())
    assert set(samples(registry, "serve_http_requests_total")) == {("", "", "", "other", "404", "p")}


def test_a_replica_counts_errors_and_those_who_left() -> None:
    registry = MetricRegistry()
    metrics = ReplicaMetrics(registry, "app", "Model", "r1")
    kind = metrics.kind("http")
    for status in (200, 404, 500, 503, CANCELLED):
        kind.ended(status, 1.0)
    metrics.refused("busy")
    place = ("app", "Model", "r1")
    assert samples(registry, "serve_deployment_requests_total") == {(*place, "http"): 5}
    assert samples(registry, "serve_deployment_errors_total") == {(*place, "http"): 2}
    assert samples(registry, "serve_deployment_cancelled_total") == {(*place, "http"): 1}
    assert samples(registry, "serve_replica_refused_total") == {(*place, "busy"): 1}


def test_the_controller_shows_what_there_is_and_forgets_what_there_was() -> None:
    registry = MetricRegistry()
    view = {"status": "HEALTHY", "target_num_replicas": 2, "replica_states": {"RUNNING": 1, "STARTING": 1}}
    counts: dict[str, Any] = {
        "applications": {"a": {"status": "RUNNING", "deployments": {"M": view}}},
        "proxies": {"HEALTHY": 2},
    }
    metrics = ControllerMetrics(registry)
    metrics.show(counts)
    metrics.started("a#M")
    metrics.started("gone#M")
    metrics.failed("gone#M")
    metrics.failed("a#M")
    metrics.forget("gone#M")
    assert samples(registry, "serve_deployment_replicas") == {("a", "M", "RUNNING"): 1, ("a", "M", "STARTING"): 1}
    assert samples(registry, "serve_replica_starts_total") == {("a", "M"): 1}
    assert samples(registry, "serve_proxies") == {("HEALTHY",): 2}
    assert samples(registry, "serve_replica_failures_total") == {("a", "M"): 1}
    assert samples(registry, "serve_deployment_target_replicas") == {("a", "M"): 2}
    assert samples(registry, "serve_deployment_status") == {("a", "M", "HEALTHY"): 1}
    assert samples(registry, "serve_application_status") == {("a", "RUNNING"): 1}
    metrics.show({"applications": {}, "proxies": {}})
    metrics.forget("a#M")
    assert samples(registry, "serve_deployment_replicas") == {} == samples(registry, "serve_replica_failures_total")
