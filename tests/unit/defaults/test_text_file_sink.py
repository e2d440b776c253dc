"""The sink that writes a file: it keeps its contract, and readers never see half of a collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.conformance.metrics_sink import MetricsSinkConformance
from kernel.defaults.metrics_sink import TextFileSink
from kernel_spec.metrics import COUNTER, FamilySnapshot


class TestTextFileSink(MetricsSinkConformance):
    make_sink = staticmethod(TextFileSink)


def sold(value: float) -> list[FamilySnapshot]:
    """Return the numbers of a shop."""
    return [FamilySnapshot("sold_total", COUNTER, "Sold.", ("kind",), (), [(("book",), value)])]


def test_the_file_has_the_latest_numbers_and_nothing_is_beside_it(tmp_path: Path) -> None:
    sink = TextFileSink(path=str(tmp_path / "here.prom"))
    for value in range(200):
        sink.take(0.0, sold(value))
    sink.close()
    assert (tmp_path / "here.prom").read_text() == (
        '# HELP sold_total Sold.\n# TYPE sold_total counter\nsold_total{kind="book"} 199\n'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["here.prom"]


def test_a_file_that_cant_be_written_is_told_to_who_asks_next(tmp_path: Path) -> None:
    sink = TextFileSink(path=str(tmp_path / "missing" / "here.prom"))
    sink.take(0.0, sold(1))
    sink.close()
    with pytest.raises(FileNotFoundError, match="missing"):
        sink.take(0.0, sold(2))
