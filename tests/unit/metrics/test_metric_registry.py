"""What a process counts: metrics by name, a bounded number of series, snapshots that travel and add up."""

from __future__ import annotations

import math
import os
import pickle

import pytest

from kernel.metrics import registry as registries
from kernel.metrics.registry import MetricRegistry
from kernel_spec import metrics
from kernel_spec.errors import MetricError
from kernel_spec.metric_text import exposition
from kernel_spec.metrics import MetricsSnapshot, lasting, merged, rows


def test_a_name_is_one_thing() -> None:
    registry = MetricRegistry()
    family = registry.counter("x_total", "X.", ("a",))
    assert registry.counter("x_total", "X.", ("a",)) is family
    with pytest.raises(MetricError, match=r"there is a counter 'x_total' already, with tags \('a',\).*another name"):
        registry.gauge("x_total", "X.", ("a",))
    with pytest.raises(MetricError, match="^x_total has the labels a, not 2 values$"):
        family.labelled("1", "2")


REFUSED = [
    ("no-name", (), (1,), "a metric's name has letters, digits and underscores, and is not 'no-name'"),
    ("y", ("a b",), (1,), "metric y has a tag 'a b': it has letters, digits and underscores"),
    ("y", ("__a",), (1,), "metric y has a tag '__a': it has letters, digits and underscores"),
    ("y", ("le",), (1,), "histogram y can't have a label le: its buckets have that"),
    ("y", (), (2, 1), "the boundaries of y are numbers that rise, not [2.0, 1.0]"),
    ("y", (), (1, 1), "the boundaries of y are numbers that rise, not [1.0, 1.0]"),
    ("y", (), (), "the boundaries of y are numbers that rise, not []"),
]


@pytest.mark.parametrize(("name", "labels", "bounds", "text"), REFUSED)
def test_what_prometheus_would_not_take_is_refused(
    name: str, labels: tuple[str, ...], bounds: tuple[float, ...], text: str
) -> None:
    with pytest.raises(MetricError) as refused:
        MetricRegistry().histogram(name, "", labels, bounds)
    assert str(refused.value) == text


def test_too_many_series_are_one_more_and_a_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 3)
    told: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(registries, "_warn", lambda name, labels: told.append((name, labels)))
    family = MetricRegistry().counter("x_total", "", ("user",))
    for number in range(10):
        family.labelled(str(number)).add()
    assert dict(family.snapshot().samples) == {("0",): 1, ("1",): 1, ("2",): 1, ("other",): 7}
    assert told == [("x_total", ("user",))], "told once, with the name"


def test_the_warning_names_metric_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("kernel.logs.Logger.warning", lambda self, text, **facts: said.append(text))
    registries._warn("x_total", ("user", "page"))
    assert said == [
        "the metric 'x_total' has 2000 series, and gets no more: further values of its tags (user, page) are counted "
        "together as 'other'; give it tags that have few values"
    ]


def test_snapshots_add_up_and_what_is_unlike_is_left_out() -> None:
    one, other, third = MetricRegistry(), MetricRegistry(), MetricRegistry()
    one.counter("a_total", "A.", ("p",)).labelled("1").add(1)
    other.counter("a_total", "A.", ("p",)).labelled("1").add(2)
    other.counter("a_total", "A.", ("p",)).labelled("2").add(5)
    one.histogram("h", "H.", (), (1,)).labelled().observe(0)
    other.histogram("h", "H.", (), (1,)).labelled().observe(7)
    third.gauge("a_total", "Another A.", ()).labelled().set(9)
    third.counter("unused_total", "U.", ("p",))
    snapshots = pickle.loads(pickle.dumps([each.snapshot() for each in (one, other, third)]))
    assert len({each.origin for each in snapshots}) == 3
    families, unlike = merged(snapshots)
    assert [family.name for family in families] == ["a_total", "h"] and unlike == {"a_total"}
    assert dict(families[0].samples) == {("1",): 3, ("2",): 5}
    assert dict(families[1].samples) == {(): ([1, 1], 7.0)}
    assert dict(one.snapshot().families[0].samples) == {("1",): 1}, "nothing is added to a snapshot itself"


def test_sums_have_no_more_series_than_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 2)
    snapshots = []
    for process in range(3):
        registry = MetricRegistry()
        registry.counter("x_total", "", ("p",)).labelled(str(process)).add(process + 1)
        snapshots.append(registry.snapshot())
    (family,), _ = merged(snapshots)
    assert dict(family.samples) == {("0",): 1, ("1",): 2, ("other",): 3}


def test_gauges_do_not_last() -> None:
    registry = MetricRegistry()
    registry.counter("c_total", "").labelled().add()
    registry.gauge("g", "").labelled().set(1)
    registry.histogram("h", "", (), (1,)).labelled().observe(1)
    assert [family.name for family in lasting(registry.snapshot().families)] == ["c_total", "h"]


def test_what_lasts_is_added_up_without_the_name_of_the_process() -> None:
    registry = MetricRegistry()
    served = registry.counter("served_total", "", ("model", "worker"), process_labels=("worker",))
    took = registry.histogram("took", "", ("worker", "model"), (1,), process_labels=("worker",))
    registry.gauge("busy", "", ("worker",)).labelled("w1").set(1)
    for worker, model, count in (("w1", "a", 1), ("w2", "a", 2), ("w2", "b", 5)):
        served.labelled(model, worker).add(count)
        took.labelled(worker, model).observe(count)
    before = registry.snapshot().families
    counted, spread = lasting(before)
    assert dict(counted.samples) == {("a", ""): 3, ("b", ""): 5}
    assert dict(spread.samples) == {("", "a"): ([1, 1], 3.0), ("", "b"): ([0, 1], 5.0)}
    assert dict(before[0].samples) == {("a", "w1"): 1, ("a", "w2"): 2, ("b", "w2"): 5}


def test_a_snapshot_includes_what_a_library_counts_by_itself() -> None:
    registry, other = MetricRegistry(), MetricRegistry()
    depth = other.gauge("depth", "").labelled()
    other.collect_by(lambda: depth.set(7))
    registry.counter("c_total", "").labelled().add(2)
    registry.include(other.families)
    assert {family.name: family.samples for family in registry.snapshot().families} == {
        "c_total": [((), 2)],
        "depth": [((), 7)],
    }


def test_rows_have_tags_by_name() -> None:
    registry = MetricRegistry()
    registry.counter("c_total", "C.", ("kind",)).labelled("book").add(2)
    took = registry.histogram("h", "H.", (), (1, 5)).labelled()
    for value in (1, 3, 9):
        took.observe(value)
    assert rows(registry.snapshot().families) == [
        {"name": "c_total", "kind": "counter", "description": "C.", "tags": {"kind": "book"}, "value": 2},
        {
            "name": "h", "kind": "histogram", "description": "H.", "tags": {}, "value": 3, "sum": 13,
            "buckets": {1: 1, 5: 1, math.inf: 1},
        },
    ]  # fmt: skip


def test_what_is_not_counted_as_it_happens_is_asked_for() -> None:
    registry = MetricRegistry()
    depth = registry.gauge("depth", "").labelled()
    registry.collect_by(lambda: depth.set(7))
    assert registry.snapshot().families[0].samples == [((), 7)]


def test_series_can_be_forgotten() -> None:
    family = MetricRegistry().gauge("x", "", ("p",))
    family.labelled("1").set(1)
    family.labelled("2").set(2)
    family.keep(lambda values: values == ("2",))
    assert family.snapshot().samples == [(("2",), 2)]


def test_a_forked_child_counts_from_zero() -> None:
    counter = registries.REGISTRY.counter("forked_total", "").labelled()
    counter.add(5)
    origin = registries.REGISTRY.origin
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        counter.add(1)
        found = next(each for each in registries.REGISTRY.snapshot().families if each.name == "forked_total")
        os.write(writing, repr((found.samples, registries.REGISTRY.origin != origin)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1000) == b"([((), 1.0)], True)"
    os.close(reading)
    os.close(writing)
    assert counter.value == 5


def test_the_text_is_what_prometheus_reads() -> None:
    registry = MetricRegistry()
    registry.counter("seen_total", "Seen\nso \\far.", ("who",)).labelled('a "b"\n\\c').add(2)
    registry.gauge("depth", "How deep.").labelled().set(-1.5)
    registry.gauge("odd", "", ("kind",)).labelled("nan").set(math.nan)
    registry.gauge("odd", "", ("kind",)).labelled("inf").set(math.inf)
    latency = registry.histogram("took_ms", "How long.", ("of",), (1, 2.5)).labelled("x")
    for value in (0.5, 1, 2, 99):
        latency.observe(value)
    other = MetricRegistry()
    other.gauge("seen_total", "").labelled().set(1)
    assert exposition([registry.snapshot(), other.snapshot()]) == (
        "# HELP depth How deep.\n# TYPE depth gauge\ndepth -1.5\n"
        '# HELP odd \n# TYPE odd gauge\nodd{kind="nan"} NaN\nodd{kind="inf"} +Inf\n'
        "# HELP seen_total Seen\\nso \\\\far.\n# TYPE seen_total counter\n"
        'seen_total{who="a \\"b\\"\\n\\\\c"} 2\n'
        "# seen_total is not the same counter in all processes: others are left out\n"
        "# HELP took_ms How long.\n# TYPE took_ms histogram\n"
        'took_ms_bucket{of="x",le="1"} 2\ntook_ms_bucket{of="x",le="2.5"} 3\ntook_ms_bucket{of="x",le="+Inf"} 4\n'
        'took_ms_sum{of="x"} 102.5\ntook_ms_count{of="x"} 4\n'
    )
    assert exposition([MetricsSnapshot("", [])]) == ""
