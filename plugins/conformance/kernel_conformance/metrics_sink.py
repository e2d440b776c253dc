"""The conformance suite for metrics sinks.

    from kernel_conformance.metrics_sink import MetricsSinkConformance

    class TestMine(MetricsSinkConformance):
        make_sink = staticmethod(MySink)

Run it with pytest.
"""

from __future__ import annotations

import copy
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernel_spec.metrics import COUNTER, GAUGE, HISTOGRAM, MOST_SERIES, FamilySnapshot, MetricsSink

NOW = 1e9


class MetricsSinkConformance:
    """Every sink's tests."""

    make_sink: Callable[[], MetricsSink]

    take_seconds = 0.5
    """Seconds that 10,000 series may hold up the head."""

    def setup_method(self) -> None:
        self.made: list[MetricsSink] = []
        self._before = os.getcwd()
        self._folder = tempfile.TemporaryDirectory()
        os.chdir(self._folder.name)  # a sink may write files where it runs

    def teardown_method(self) -> None:
        try:
            for sink in self.made:
                sink.close()
        finally:
            os.chdir(self._before)
            self._folder.cleanup()

    def _make(self) -> MetricsSink:
        sink = type(self).make_sink()
        self.made.append(sink)
        return sink

    def test_is_a_sink(self) -> None:
        sink = self._make()
        assert isinstance(sink, MetricsSink), f"{type(sink).__name__} lacks interval, take or close"
        assert 0 <= float(sink.interval) < math.inf, "interval is how many seconds to leave between two collections"

    def test_can_be_closed_without_having_been_told_anything(self) -> None:
        self._make()

    def test_takes_every_kind_of_metric(self) -> None:
        self._make().take(NOW, _families(1.0))

    def test_takes_nothing_at_all(self) -> None:
        sink = self._make()
        sink.take(NOW, [])
        sink.take(NOW, ())
        sink.take(NOW, [FamilySnapshot("nothing_total", COUNTER, "", ("a",), (), [])])

    def test_takes_what_later_versions_will_say(self) -> None:
        sink = self._make()
        sink.take(NOW, [FamilySnapshot("tomorrow", "unheard_of", "", (), (), [((), 1.0)])])

    def test_takes_numbers_that_are_none(self) -> None:
        samples: list[tuple[tuple[str, ...], Any]] = [
            ((str(value),), value) for value in (math.nan, math.inf, -math.inf, 0.5, 1 << 70)
        ]
        self._make().take(NOW, [FamilySnapshot("odd", GAUGE, "", ("a",), (), samples)])

    def test_takes_any_text_in_labels_and_descriptions(self) -> None:
        text = 'a "quoted" \\ line\nand another, ü \U0001f600 \x00'
        self._make().take(
            NOW, [FamilySnapshot("text_total", COUNTER, text, ("a",), (), [((text,), 1.0), (("",), 1.0)])]
        )

    def test_takes_sums_that_begin_anew(self) -> None:
        sink = self._make()
        for value in (5.0, 5.0, 0.0, 1.0):  # another head knows nothing of what ended processes counted
            sink.take(NOW, _families(value))

    def test_takes_metrics_that_come_and_go_and_change(self) -> None:
        sink = self._make()
        sink.take(NOW, _families(1.0))
        sink.take(NOW + 1, _families(1.0)[:1])
        sink.take(NOW - 60, [FamilySnapshot("sold_total", GAUGE, "Else.", (), (), [((), 1.0)])])
        sink.take(NOW + 2, _families(2.0))

    def test_leaves_the_numbers_as_they_are(self) -> None:
        families = _families(1.0)
        before = copy.deepcopy(families)
        self._make().take(NOW, families)
        assert families == before, "nobody else may find them changed"

    def test_returns_quickly(self) -> None:
        sink = self._make()
        many: list[tuple[tuple[str, ...], Any]] = [((str(number),), 1.0) for number in range(MOST_SERIES)]
        families = [FamilySnapshot(f"many_{number}_total", COUNTER, "", ("a",), (), many) for number in range(5)]
        seconds = _seconds(sink, families)
        for _ in range(20):  # others may be using the machine
            if seconds < self.take_seconds:
                break
            seconds = _seconds(sink, families)
        assert seconds < self.take_seconds, f"10,000 series took {seconds:.2f} s; hand slow work to a thread"


def _families(value: float) -> list[FamilySnapshot]:
    return [
        FamilySnapshot("sold_total", COUNTER, "What was sold.", ("kind",), (), [(("book",), value), (("pen",), 2.0)]),
        FamilySnapshot("depth", GAUGE, "How deep.", (), (), [((), -value)]),
        FamilySnapshot("took_seconds", HISTOGRAM, "How long.", (), (0.1, 1.0), [((), ([1, 0, 2], 7.5))]),
    ]


def _seconds(sink: MetricsSink, families: Sequence[FamilySnapshot]) -> float:
    start = time.perf_counter()
    sink.take(NOW, families)
    return time.perf_counter() - start
