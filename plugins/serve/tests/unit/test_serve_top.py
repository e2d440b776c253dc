"""The view of `serve top`, computed from two moments."""

from __future__ import annotations

import io
from typing import Any

import pytest
from kernel_serve.cli.top_numbers import view
from kernel_serve.cli.top_view import bar, plain, rendered
from kernel_serve.metrics.changes import Numbers, Spread, increase, spread
from kernel_serve.metrics.proxy import ProxyMetrics
from kernel_serve.metrics.replica import ReplicaMetrics
from rich.console import Console

from kernel.metrics.registry import MetricRegistry


def replica(id: str) -> dict[str, Any]:
    return {"replica_id": id, "state": "RUNNING", "waits_for": ""}


STATUS: dict[str, Any] = {
    "applications": {
        "shop": {
            "name": "shop", "status": "DEPLOYING", "message": "", "route_prefix": "/shop",
            "deployments": {
                "Till": {
                    "name": "Till", "status": "UPSCALING", "message": "first\nlast words", "target_num_replicas": 3,
                    "replica_states": {"RUNNING": 2, "STARTING": 1},
                    "replicas": [
                        replica("shop#Till#a1"), replica("shop#Till#b2"),
                        {"replica_id": "shop#Till#c3", "state": "STARTING", "waits_for": "4 CPUs"},
                    ],
                }
            },
        }
    },
    "proxies": {"p": {"address": "127.0.0.1:8000", "status": "HEALTHY"}},
}  # fmt: skip


class Moments:
    """Processes that count."""

    def __init__(self) -> None:
        self.proxy, self.first, self.second = MetricRegistry(), MetricRegistry(), MetricRegistry()
        self.http = ProxyMetrics(self.proxy, "p")
        self.a1 = ReplicaMetrics(self.first, "shop", "Till", "shop#Till#a1")
        self.b2 = ReplicaMetrics(self.second, "shop", "Till", "shop#Till#b2")
        self.a1.watch(lambda: 3, lambda: 6, lambda: ())

    def now(self) -> Numbers:
        return Numbers([each.snapshot() for each in (self.proxy, self.first, self.second)])


def test_rates_and_latencies_are_those_of_the_last_interval() -> None:
    moments = Moments()
    for _ in range(100):
        moments.a1.kind("http").ended(500, 5_000.0)
        moments.http.ended("shop#Till", "/shop", "GET", 503, 5_000.0)
    before = moments.now()
    for _ in range(20):
        moments.a1.kind("http").ended(200, 9.0)
        moments.http.ended("shop#Till", "/shop", "GET", 200, 9.0)
    moments.b2.kind("call").ended(500, 40.0)
    moments.http.ended("shop#Till", "/shop", "GET", 500, 9.0)
    shown = view(STATUS, before, moments.now(), 2.0)
    assert (shown.traffic.rate, shown.traffic.errors) == (10.5, 0.5)
    assert shown.traffic.p50 is not None and 7.5 < shown.traffic.p50 < 10.0
    (till,) = shown.applications[0].deployments
    assert (till.traffic.rate, till.traffic.errors, till.total_errors) == (10.5, 0.5, 101)
    assert till.traffic.p99 is not None and 30 < till.traffic.p99 < 50
    assert (till.ongoing, till.target, till.message) == (3, 3, "last words")
    assert [each.traffic.rate for each in till.replicas] == [10.0, 0.5, 0.0]
    assert (till.replicas[0].ongoing, till.replicas[0].limit) == (3, 6)
    assert till.replicas[2].traffic.p50 is None and till.replicas[2].note == "4 CPUs"


def test_it_is_shown_as_lines_and_as_tables() -> None:
    shown = view(STATUS, Numbers(()), Moments().now(), 1.0)
    text = plain(shown, "12:00:00")
    assert text.startswith("serve 12:00:00  0 req/s  p50 - ms  p99 - ms  0 errors/s  0 ongoing")
    assert "proxy 127.0.0.1:8000 HEALTHY\n\nshop  DEPLOYING  /shop\n" in text
    assert "Till  UPSCALING        2/3, 1 starting" in text
    assert "######------ 3/6" in text and "STARTING 4 CPUs" in text
    console = Console(file=io.StringIO(), width=140)
    console.print(rendered(shown, "12:00:00"))
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert "application shop  DEPLOYING  at /shop" in drawn and "last words" in drawn and "######------ 3/6" in drawn
    nothing = view({"applications": {}, "proxies": {}}, Numbers(()), Numbers(()), 1.0)
    console.print(rendered(nothing, "12:00:00"))
    assert "no application runs" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ongoing", "limit", "shown"),
    [(0, 4, "------------ 0/4"), (4, 4, "############ 4/4"), (9, 4, "############ 9/4"), (0, 0, "------------ 0/0")],
)
def test_a_bar_is_as_full_as_the_replica(ongoing: int, limit: int, shown: str) -> None:
    assert bar(ongoing, limit) == shown


def test_percentiles_are_as_exact_as_the_buckets() -> None:
    spread = Spread((1.0, 2.0, 4.0), (0, 10, 10, 0))
    assert (spread.percentile(0.5), spread.percentile(0.75), spread.percentile(1.0)) == (2.0, 3.0, 4.0)
    assert Spread((1.0, 2.0), (0, 0, 5)).percentile(0.99) == 2.0
    assert Spread().percentile(0.5) is None is Spread((1.0,), (0, 0)).percentile(0.5)


def test_a_process_that_is_gone_or_new_does_no_harm() -> None:
    old, new = MetricRegistry(), MetricRegistry()
    old.counter("c", "", ("r",)).labelled("old").add(100)
    new.counter("c", "", ("r",)).labelled("new").add(3)
    new.histogram("h", "", (), (1,)).labelled().observe(0.5)
    before, now = Numbers([old.snapshot()]), Numbers([new.snapshot()])
    assert increase(before, now, "c") == 3
    assert spread(before, now, "h").counts == (1, 0)
    assert spread(before, now, "missing").count == 0
    assert now.total("c", nothing="x") == 0
