"""Counting, pictures of what was counted, and their text."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from kernel_serve.errors import MetricError
from kernel_serve.metrics import registry as registries
from kernel_serve.metrics.controller import ControllerMetrics
from kernel_serve.metrics.exposition import exposition
from kernel_serve.metrics.proxy import WEBSOCKET, ProxyMetrics
from kernel_serve.metrics.registry import MetricRegistry
from kernel_serve.metrics.replica import CANCELLED, ReplicaMetrics


def samples(registry: MetricRegistry, name: str) -> dict[tuple[str, ...], Any]:
    (family,) = [each for each in registry.picture().families if each.name == name]
    return dict(family.samples)


def test_the_text_is_what_prometheus_reads() -> None:
    registry = MetricRegistry()
    registry.counter("seen_total", "Seen\nso \\far.", ("who",)).labelled('a "b"\n\\c').add(2)
    registry.gauge("depth", "How deep.").labelled().set(-1.5)
    registry.gauge("odd", "", ("kind",)).labelled("nan").set(math.nan)
    registry.gauge("odd", "", ("kind",)).labelled("inf").set(math.inf)
    latency = registry.histogram("took_ms", "How long.", ("of",), (1, 2.5)).labelled("x")
    for value in (0.5, 1, 2, 99):
        latency.observe(value)
    assert exposition([registry.picture()]) == (
        "# HELP depth How deep.\n# TYPE depth gauge\ndepth -1.5\n"
        '# HELP odd \n# TYPE odd gauge\nodd{kind="nan"} NaN\nodd{kind="inf"} +Inf\n'
        "# HELP seen_total Seen\\nso \\\\far.\n# TYPE seen_total counter\n"
        'seen_total{who="a \\"b\\"\\n\\\\c"} 2\n'
        "# HELP took_ms How long.\n# TYPE took_ms histogram\n"
        'took_ms_bucket{of="x",le="1"} 2\ntook_ms_bucket{of="x",le="2.5"} 3\ntook_ms_bucket{of="x",le="+Inf"} 4\n'
        'took_ms_sum{of="x"} 102.5\ntook_ms_count{of="x"} 4\n'
    )
    assert exposition([MetricRegistry().picture()]) == ""


def test_pictures_of_several_processes_are_one_text_with_each_family_once() -> None:
    one, other, third = MetricRegistry(), MetricRegistry(), MetricRegistry()
    one.counter("a_total", "A.", ("p",)).labelled("1").add(1)
    other.counter("a_total", "A.", ("p",)).labelled("1").add(2)
    other.counter("a_total", "A.", ("p",)).labelled("2").add(5)
    one.histogram("h", "H.", (), (1,)).labelled().observe(0)
    other.histogram("h", "H.", (), (1,)).labelled().observe(7)
    third.gauge("a_total", "Another A.", ()).labelled().set(9)
    text = exposition(pickle.loads(pickle.dumps([each.picture() for each in (one, other, third)])))
    assert text.count("# TYPE a_total counter") == 1 and "Another" not in text
    assert 'a_total{p="1"} 3\n' in text and 'a_total{p="2"} 5\n' in text
    assert "# a_total is no counter everywhere: other kinds of it are left out\n" in text
    assert 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 7\nh_count 2\n' in text


def test_a_name_is_one_thing() -> None:
    registry = MetricRegistry()
    family = registry.counter("x_total", "X.", ("a",))
    assert registry.counter("x_total", "X.", ("a",)) is family
    with pytest.raises(MetricError, match=r"there is a counter 'x_total' already, with tags \('a',\).*another name"):
        registry.gauge("x_total", "X.", ("a",))
    with pytest.raises(MetricError, match="has the labels a, not 2 values"):
        family.labelled("1", "2")
    with pytest.raises(MetricError, match="is not 'no-name'"):
        registry.counter("no-name", "")
    with pytest.raises(MetricError, match="has a tag 'a b'"):
        registry.counter("y", "", ("a b",))
    with pytest.raises(MetricError, match="boundaries of z are numbers that rise"):
        registry.histogram("z", "", (), (2, 1))
    with pytest.raises(MetricError, match="can't have a label le"):
        registry.histogram("z", "", ("le",), (1,))


def test_a_family_has_a_limited_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "MOST_SERIES", 3)
    family = MetricRegistry().counter("x_total", "", ("user",))
    for number in range(10):
        family.labelled(str(number)).add()
    assert dict(family.picture().samples) == {("0",): 1, ("1",): 1, ("2",): 1, ("other",): 7}


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
    status: dict[str, Any] = {
        "applications": {"a": {"status": "RUNNING", "deployments": {"M": view}}},
        "proxies": {"1": {"status": "HEALTHY"}, "2": {"status": "HEALTHY"}},
    }
    metrics = ControllerMetrics(registry, lambda: status)
    metrics.started("a#M")
    metrics.started("gone#M")
    metrics.failed("gone#M")
    metrics.failed("a#M")
    metrics.forget("gone#M")
    assert samples(registry, "serve_deployment_replicas") == {("a", "M", "RUNNING"): 1, ("a", "M", "STARTING"): 1}
    assert samples(registry, "serve_replica_starts_total") == {("a", "M"): 1}
    assert samples(registry, "serve_proxies") == {("HEALTHY",): 2}
    status = {"applications": {}, "proxies": {}}
    metrics.forget("a#M")
    assert samples(registry, "serve_deployment_replicas") == {} == samples(registry, "serve_replica_failures_total")
