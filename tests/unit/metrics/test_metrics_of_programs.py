"""Counter, Gauge and Histogram as programs use them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kernel
from kernel.metrics.registry import REGISTRY
from kernel_spec.errors import MetricError


def samples(name: str) -> dict[tuple[str, ...], Any]:
    """Return what this process has counted of a metric."""
    (family,) = [each for each in REGISTRY.snapshot().families if each.name == name]
    return dict(family.samples)


def test_a_counter_counts_by_tags() -> None:
    orders = kernel.metrics.Counter("program_orders_total", "Orders.", ("kind", "shop"), {"shop": "main"})
    orders.inc(tags={"kind": "book"})
    orders.inc(2, {"kind": "book", "shop": "main"})
    orders.inc(tags={"kind": "pen", "shop": "side"})
    orders.set_default_tags({"shop": "late"})
    orders.inc(tags={"kind": "book"})
    assert samples("program_orders_total") == {("book", "main"): 3, ("pen", "side"): 1, ("book", "late"): 1}
    assert orders.info == {
        "name": "program_orders_total",
        "description": "Orders.",
        "tag_keys": ("kind", "shop"),
        "default_tags": {"shop": "late"},
    }


def test_a_gauge_is_as_it_was_set_last_and_a_histogram_has_buckets() -> None:
    depth = kernel.metrics.Gauge("program_depth")
    depth.set(3)
    depth.set(1)
    sizes = kernel.metrics.Histogram("program_sizes", boundaries=(1, 10), tag_keys=("of",))
    for value in (1, 2, 11, 12):
        sizes.observe(value, {"of": "x"})
    assert samples("program_depth") == {(): 1}
    assert samples("program_sizes") == {("x",): ([1, 1, 2], 26)}


def test_default_tags_that_change_are_heeded_where_no_tags_are_given() -> None:
    moods = kernel.metrics.Counter("program_moods_total", tag_keys=("mood",))
    for mood in ("good", "bad"):
        moods.set_default_tags({"mood": mood})
        moods.inc()
    assert samples("program_moods_total") == {("good",): 1, ("bad",): 1}


def test_values_that_are_no_texts_count_as_their_texts() -> None:
    codes = kernel.metrics.Counter("program_codes_total", tag_keys=("code",))
    codes.inc(tags={"code": 1})  # type: ignore[dict-item]
    codes.inc(tags={"code": True})  # type: ignore[dict-item]
    codes.inc(tags={"code": "1"})
    assert samples("program_codes_total") == {("1",): 2, ("True",): 1}


@pytest.mark.parametrize("cls", ["Counter", "Gauge", "Histogram"])
def test_a_metric_travels_and_counts_in_the_same_series(cls: str) -> None:
    bounds = {"boundaries": (1,)} if cls == "Histogram" else {}
    metric = getattr(kernel.metrics, cls)(
        f"program_travelled_{cls}", tag_keys=("a",), default_tags={"a": "x"}, **bounds
    )
    arrived = pickle.loads(pickle.dumps(metric))
    assert arrived.info == metric.info
    {"Counter": lambda: arrived.inc(5), "Gauge": lambda: arrived.set(5), "Histogram": lambda: arrived.observe(5)}[cls]()
    assert samples(metric.name) == {("x",): ([0, 1], 5) if cls == "Histogram" else 5}


def test_what_makes_no_sense_is_refused_with_the_name_and_the_way_out() -> None:
    counter = kernel.metrics.Counter("program_refusals_total", tag_keys=("kind",))
    with pytest.raises(MetricError, match=r"'program_refusals_total' can only grow, not by -1: use a Gauge"):
        counter.inc(-1, {"kind": "x"})
    with pytest.raises(
        MetricError, match=r"'program_refusals_total' needs a value of its tag 'kind': give it with tags="
    ):
        counter.inc()
    with pytest.raises(MetricError, match=r"has no tag 'sort': name it in tag_keys; there are: kind"):
        counter.inc(tags={"sort": "x"})
    with pytest.raises(MetricError, match=r"has no tag 'sort'"):
        counter.set_default_tags({"sort": "x"})
    with pytest.raises(MetricError, match=r"tag_keys of metric 'program_x' is a tuple of names, not 'kind'"):
        kernel.metrics.Counter("program_x", tag_keys="kind")
    with pytest.raises(MetricError, match=r"there is a counter 'program_refusals_total' already"):
        kernel.metrics.Gauge("program_refusals_total")


def test_what_has_tags_by_itself_takes_none_of_their_names() -> None:
    class PlacedCounter(kernel.metrics.Counter):
        automatic = ("place",)
        here: tuple[str, ...] | None = None

        def _where(self) -> tuple[str, ...] | None:
            return self.here

    placed = PlacedCounter("program_placed_total", tag_keys=("a",))
    placed.inc(tags={"a": "1"})
    placed.here = ("moon",)
    placed.inc(tags={"a": "1"})
    placed.inc(tags={"a": "1"})
    assert samples("program_placed_total") == {("", "1"): 1, ("moon", "1"): 2}
    with pytest.raises(
        MetricError, match="metric 'program_y' has a tag 'place', which every such metric has by itself"
    ):
        PlacedCounter("program_y", tag_keys=("place",))
