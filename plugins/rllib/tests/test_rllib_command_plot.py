"""`rllib plot`: curves of runs as a page or a picture."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kernel_rllib.cli.main import rllib
from kernel_rllib.experiments.curves import curves_in
from kernel_rllib.experiments.curves_page import drawing, ticks


def run_of(directory: Path, name: str, returns: list[float | None]) -> None:
    """Write a run with these returns, one each 100 steps."""
    (directory / name).mkdir(parents=True)
    lines = [
        json.dumps({"timesteps_total": 100 * (number + 1), "episode_reward_mean": value, "env_runners": {"x": number}})
        for number, value in enumerate(returns)
    ]
    (directory / name / "result.json").write_text("\n".join(lines) + '\n{"timesteps_t', encoding="utf-8")


def called(*arguments: Any) -> Result:
    """Return what `rllib plot` did."""
    return CliRunner().invoke(rllib, ["plot", *(str(argument) for argument in arguments)])


def test_curves_are_those_of_all_runs_below_and_whole(tmp_path: Path) -> None:
    run_of(tmp_path / "mine", "b", [None, 1.0, 2.5])
    run_of(tmp_path / "mine", "a<b>", [7.0])
    found = curves_in([str(tmp_path), str(tmp_path / "mine")], "episode_reward_mean", "timesteps_total")
    assert [(curve.name, curve.x, curve.y) for curve in found] == [
        ("a<b>", [100.0], [7.0]),
        ("b", [200.0, 300.0], [1.0, 2.5]),
    ]
    (first, second) = curves_in([str(tmp_path)], "env_runners/x", "timesteps_total")
    assert (first.y, second.y) == ([0.0], [0.0, 1.0, 2.0])


def test_a_page_has_a_drawing_whose_points_are_where_they_belong(tmp_path: Path) -> None:
    run_of(tmp_path, "run", [0.0, 50.0, 100.0])
    run_of(tmp_path, "one<x>", [25.0])
    result = called(tmp_path, "-o", tmp_path / "curves.html")
    assert result.exit_code == 0 and f"2 runs in {tmp_path / 'curves.html'}" in result.output
    page = (tmp_path / "curves.html").read_text(encoding="utf-8")
    assert "one&lt;x&gt;" in page and "<x>" not in page and "http" not in page.replace("http-equiv", "")
    curves = curves_in([str(tmp_path)], "episode_reward_mean", "timesteps_total")
    svg = ElementTree.fromstring(drawing(curves, "steps", "return"))
    (path,) = (each.attrib["d"] for each in svg.iter("path"))
    points = [tuple(map(float, point.split(","))) for point in path[1:].split(" L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y0 > y2 and all(72 <= x <= 944 and 16 <= y <= 412 for x, y in points)
    (dot,) = svg.iter("circle")
    assert float(dot.attrib["cy"]) == pytest.approx((y0 + y1) / 2, abs=0.2)


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run_of(tmp_path, "run", [0.0, 50.0])
    assert called(tmp_path, "-o", tmp_path / "new" / "curves.png").exit_code == 0
    assert (tmp_path / "new" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (-3, 4, [-4, -2, 0, 2, 4]), (5, 5, [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6])],
)
def test_axes_have_round_numbers(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    assert found[0] <= low and found[-1] >= high
    assert found == expected


def test_what_is_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    run_of(tmp_path, "run", [1.0])
    run_of(tmp_path, "young", [None])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for arguments, message in (
        ((tmp_path / "none",), "none is not there. Give that of a run or of an experiment"),
        ((tmp_path / "empty",), "has no runs: no directory in it has a result.json"),
        ((tmp_path, "-o", "x.pdf"), "the picture 'x.pdf' has the ending '.pdf': give FILE.html or FILE.png"),
        ((tmp_path, "--metric", "episode_reward_men"), "did you mean 'episode_reward_mean'"),
        ((tmp_path / "young",), "no run has a number 'episode_reward_mean' in its results yet"),
        ((tmp_path, "-o", tmp_path / "x.png"), "(FILE.html needs nothing) needs the library"),
    ):
        result = called(*arguments)
        assert result.exit_code != 0 and message in result.output, result.output
