"""Metrics that deployments make."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from kernel_serve import context
from kernel_serve import metrics as serve_metrics
from kernel_serve.errors import MetricError
from kernel_serve.metrics import user

from kernel.metrics.registry import MetricRegistry
from kernel_spec.metric_text import exposition


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricRegistry]:
    fresh = MetricRegistry()
    monkeypatch.setattr(user.InReplica, "registry", fresh)
    monkeypatch.setattr(context, "_replica_of_process", context.ReplicaContext("shop", "Till", "r7"))
    yield fresh


def lines(registry: MetricRegistry) -> list[str]:
    return [line for line in exposition([registry.snapshot()]).splitlines() if not line.startswith("#")]


PLACE = 'application="shop",deployment="Till",replica="r7"'


def test_they_are_labelled_with_where_they_count(registry: MetricRegistry) -> None:
    orders = serve_metrics.Counter("orders", "Orders.", ("kind", "shop"), {"shop": "main"})
    orders.inc(tags={"kind": "book"})
    orders.inc(2.5, {"kind": "book", "shop": "branch"})
    serve_metrics.Gauge("stock").set(7)
    serve_metrics.Histogram("price", boundaries=[10, 20], tag_keys=("kind",)).observe(15, {"kind": "book"})
    assert lines(registry) == [
        f'orders{{{PLACE},kind="book",shop="main"}} 1',
        f'orders{{{PLACE},kind="book",shop="branch"}} 2.5',
        f'price_bucket{{{PLACE},kind="book",le="10"}} 0',
        f'price_bucket{{{PLACE},kind="book",le="20"}} 1',
        f'price_bucket{{{PLACE},kind="book",le="+Inf"}} 1',
        f'price_sum{{{PLACE},kind="book"}} 15',
        f'price_count{{{PLACE},kind="book"}} 1',
        f"stock{{{PLACE}}} 7",
    ]


def test_one_that_was_sent_elsewhere_counts_there(registry: MetricRegistry) -> None:
    made = serve_metrics.Histogram("size", "Sizes.", [1, 2], ("kind",)).set_default_tags({"kind": "x"})
    sent = pickle.loads(pickle.dumps(made))
    assert sent.info == made.info and sent.boundaries == (1, 2)
    sent.observe(1)
    assert f'size_count{{{PLACE},kind="x"}} 1' in lines(registry)


def test_mistakes_are_named() -> None:
    counter = serve_metrics.Counter("orders", tag_keys=("kind",))
    with pytest.raises(MetricError, match="metric 'orders' has no tag 'kin'.*there are: kind"):
        counter.inc(tags={"kin": "x"})
    with pytest.raises(MetricError, match="metric 'orders' needs a value of its tag 'kind'.*set_default_tags"):
        counter.inc()
    with pytest.raises(MetricError, match=r"counter 'orders' can only grow, not by -1.*use a Gauge"):
        counter.inc(-1, {"kind": "x"})
    with pytest.raises(MetricError, match="has a tag 'replica', which every such metric has by itself"):
        serve_metrics.Gauge("x", tag_keys=("replica",))
    with pytest.raises(MetricError, match=r"tag_keys of metric 'x' is a tuple of names, not 'kind'"):
        serve_metrics.Gauge("x", tag_keys="kind")
    with pytest.raises(AttributeError, match="has no attribute 'Summary'"):
        _ = serve_metrics.Summary
