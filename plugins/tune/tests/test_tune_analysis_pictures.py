"""Pictures and the page of an experiment: what is drawn, what matters, and what it needs."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_tune.analysis import ExperimentAnalysis, ResultGrid, plots, write_html
from kernel_tune.analysis.data import Axis, ExperimentData, data_of
from kernel_tune.analysis.importance import _shares, importance
from kernel_tune.analysis.plots.bars import importance_figure, importances
from kernel_tune.analysis.plots.curves import curves_figure
from kernel_tune.analysis.plots.parallel import parallel_figure
from kernel_tune.analysis.plots.scatter import slices_figure
from kernel_tune.analysis.plots.style import BEST, limits
from kernel_tune.errors import OptionalDependencyError
from kernel_tune.loggers import JsonLoggerCallback
from kernel_tune.trial import Status, Trial

PNG = b"\x89PNG\r\n\x1a\n"


def make(folder: Path, count: int = 24) -> ResultGrid:
    """Run trials whose score depends on `lr` and a little on `act`; the last one fails, and one has no score."""
    trials = []
    for i in range(count):
        config: dict[str, Any] = {"lr": 10 ** (-4 + 4 * i / count), "act": ["relu", "tanh"][i % 2], "same": 1}
        if i != 3:
            config["net"] = {"width": 2 ** (i % 5)}
        trial = Trial("f", config=config, trial_id=f"{i:08x}", local_dir=str(folder), name=f"f_{i:08x}",
                      status=Status.TERMINATED)  # fmt: skip
        score = math.nan if i == 5 else -abs(i - 10) + i % 2
        results = [
            {"score": score * k / 3, "training_iteration": k, "time_total_s": k, "config": config} for k in (1, 2, 3)
        ]
        logger = JsonLoggerCallback()
        logger.on_trial_start(0, trials, trial)
        logger.on_trial_results(0, trials, trial, results)
        trial.last_result, trial.results = results[-1], 3
        trials.append(trial)
    trials[-1].status, trials[-1].error_message = Status.ERROR, "ValueError: <b>no</b>"
    return ResultGrid(trials, "score", "max", path=str(folder))


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> ResultGrid:
    return make(tmp_path_factory.mktemp("pictures") / "digits")


@pytest.fixture(scope="module")
def data(grid: ResultGrid) -> ExperimentData:
    return data_of(grid)


def test_parameters_that_differ_have_axes(data: ExperimentData) -> None:
    lr, act, width = data.axes
    assert (lr.name, lr.is_logarithmic, lr.position(data.trials[0].parameters["lr"])) == ("lr", True, 0)
    assert lr.position(math.sqrt(lr.low * lr.high)) == pytest.approx(0.5)
    assert (act.categories, act.position("tanh"), act.position(None)) == (("relu", "tanh"), 1.0, None)
    assert (width.name, width.is_logarithmic, width.position(16)) == ("net/width", False, 1.0)
    assert Axis.of("x", [2, 2, None]).position(2) == 0.5 and Axis.of("x", [1, "a"]).categories == ("1", "a")
    assert not Axis.of("x", [0.004, *np.linspace(0.01, 0.6, 20)]).is_logarithmic  # evenly spread, but for one
    assert data.best is data.trials[9] and data.compared[-1] is data.best and len(data.compared) == 23


def test_the_only_metric_needs_no_name(tmp_path: Path) -> None:
    trials = [Trial("f", name=f"t{i}", last_result={"loss": float(i), "done": True}) for i in range(2)]
    found = data_of(ExperimentAnalysis(tmp_path, trials), mode="min")
    assert found.metric == "loss" and found.best is found.trials[0]
    trials[0].last_result["other"] = 1
    with pytest.raises(ValueError, match=r"by which metric\? trials report loss, other; give one of them"):
        data_of(ExperimentAnalysis(tmp_path, trials))
    with pytest.raises(ValueError, match="no trial has reported a number"):
        data_of(ExperimentAnalysis(tmp_path, []))


def test_every_picture_is_written_as_a_png(grid: ResultGrid, tmp_path: Path) -> None:
    for name in plots.__all__:
        path = getattr(plots, name)(grid, tmp_path / "new" / f"{name}.png")
        assert Path(path).read_bytes().startswith(PNG) and Path(path).stat().st_size > 10_000
    assert Path(plots.learning_curves(grid.experiment_path, tmp_path / "c.png", "score", "min")).exists()


def test_learning_curves_have_a_line_for_each_trial(data: ExperimentData) -> None:
    (axes,) = curves_figure(data).axes
    best = [line for line in axes.lines if line.get_color() == BEST and len(line.get_xdata()) > 1]
    assert len(axes.lines) == 23 + 1 and len(best) == 1  # a dot at the end of the best
    assert list(best[0].get_xdata()) == [1, 2, 3] and best[0].get_ydata()[-1] == 0.0
    assert "f_00000009" in axes.get_legend().get_texts()[0].get_text()


def test_parallel_coordinates_leave_out_what_is_missing(data: ExperimentData) -> None:
    (axes,) = parallel_figure(data).axes
    segments = sorted(len(patch.get_path().vertices) // 4 for patch in axes.patches)
    assert segments == [1] + [3] * 22  # of one trial the last parameter is not known
    assert {"lr", "act", "net/width", "score", "relu", "tanh"} <= {text.get_text() for text in axes.texts}


def test_slices_show_each_parameter(data: ExperimentData) -> None:
    panels = slices_figure(data).axes
    assert panels[0].get_xlabel() == "lr" and panels[0].get_xscale() == "log"
    assert {axes.get_xlabel() for axes in panels} == {"lr", "act", "net/width"}
    assert [len(axes.collections) for axes in panels if axes.get_xlabel() == "net/width"] == [22]


def test_the_parameter_that_matters_comes_first(data: ExperimentData) -> None:
    found = importances(data)
    assert next(iter(found)) == "lr" and found["lr"] > 0.5 and sum(found.values()) <= 1 + 1e-9
    assert importances(data) == found  # the same again
    (axes,) = importance_figure(data).axes
    assert [round(patch.get_width(), 6) for patch in axes.patches][::-1] == [
        round(share, 6) for share in found.values()
    ]


def test_importance_is_the_variance_that_is_explained() -> None:
    generator = np.random.default_rng(0)
    points = generator.random((300, 3))
    points[:, 1] = generator.integers(0, 3, 300) / 2
    scores = points[:, 0] + np.array([0.0, 0.3, 0.9])[(points[:, 1] * 2).astype(int)]
    parts = np.array([1 / 12, np.var([0, 0.3, 0.9]), 0])
    assert importance(points, scores, [0, 3, 0]) == pytest.approx(parts / parts.sum(), abs=0.08)
    assert (importance(points, np.ones(300), [0, 3, 0]) == 0).all()


def test_the_shares_of_a_known_tree() -> None:
    whole = np.array([[0.0, 1.0], [0.0, 1.0]])
    left, right = whole.copy(), whole.copy()
    left[0, 1] = right[0, 0] = 0.25
    assert _shares(np.array([left, right]), np.array([0.0, 1.0])) == pytest.approx([1.0, 0.0])
    corners = [np.array([[i / 2, i / 2 + 0.5], [j / 2, j / 2 + 0.5]]) for i in (0, 1) for j in (0, 1)]
    assert _shares(np.array(corners), np.array([0.0, 0.0, 0.0, 1.0])) == pytest.approx([1 / 3, 1 / 3])
    assert _shares(np.array(corners), np.array([0.0, 1.0, 1.0, 0.0])) == pytest.approx([0.0, 0.0])  # both together only
    assert _shares(np.array([whole]), np.array([2.0])) is None


def test_what_is_far_away_is_not_shown() -> None:
    low, high = limits([*np.linspace(0, 1, 99), 1e9]) or (0, 0)
    assert low < 0 and 1 < high < 10
    assert limits([]) is None and limits([2.0]) == (1.8, 2.2) and limits([0.0]) == (-1.0, 1.0)


def test_without_results_a_picture_says_so(tmp_path: Path) -> None:
    trials = [Trial("f", config={"x": 1}, local_dir=str(tmp_path), name=f"t{i}") for i in range(2)]
    empty = data_of(ResultGrid(trials, "score", "max", path=str(tmp_path)))
    for draw in (curves_figure, parallel_figure, importance_figure, slices_figure):
        assert "score" in draw(empty).texts[0].get_text()
    one = data_of(make(tmp_path, 1))
    assert len(curves_figure(one).axes) == 1 and "no parameter differs" in parallel_figure(one).texts[0].get_text()
    assert "no parameter differs" in slices_figure(one).texts[0].get_text()


def test_the_page_is_one_file_that_asks_for_nothing(grid: ResultGrid, tmp_path: Path) -> None:
    grid.analysis.trials[4].config["lr"] = "</td><script>alert(1)</script>"
    grid.analysis.trials[4].evaluated_params = {"lr": "</td><script>alert(1)</script>"}
    try:
        text = Path(write_html(grid, tmp_path / "page.html")).read_text(encoding="utf-8")
    finally:
        grid.analysis.trials[4].config["lr"] = 0.001
        grid.analysis.trials[4].evaluated_params = {}
    assert not re.search(r"https?:|@import|url\(|<link|<iframe", text)
    assert set(re.findall(r'src="([^"]{0,22})', text)) == {"data:image/png;base64,"} and text.count("<img") == 4
    assert text.count("<script>") == 1 and "&lt;script&gt;alert(1)" in text
    assert "<h1>digits</h1>" in text and "Best trial: f_00000009" in text and "&lt;b&gt;no&lt;/b&gt;" in text
    rows = re.findall(r'<tr class="(\w+)( best)?">.*?data-value="(\w+)"', text)
    assert len(rows) == 24 and rows[0] == ("TERMINATED", " best", "f_00000009")
    assert {row[0] for row in rows} == {"TERMINATED", "ERROR"} and rows[-1][2] == "f_00000005"  # which has no score


def test_without_matplotlib_a_picture_says_what_to_install(
    grid: ResultGrid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(OptionalDependencyError, match=r'a picture of an experiment needs.*"kernel-tune\[plots\]"'):
        plots.learning_curves(grid, tmp_path / "x.png")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = plots.nothing
