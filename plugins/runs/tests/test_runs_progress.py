"""Lines and tables of text about runs."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kernel_runs import Run
from kernel_runs.progress.metrics import own_numbers
from kernel_runs.progress.result_lines import TrialProgressCallback
from kernel_runs.progress.text import cell, duration, html_table, text_table


def a_run(number: int = 0, **other: Any) -> Run:
    return Run("MyTrainable", name=f"MyTrainable_a82{number:05x}", **other)


def test_a_line_for_each_result_and_each_end() -> None:
    out, now = io.StringIO(), [0.0]
    callback = TrialProgressCallback(metric="loss", stream=out, clock=lambda: now[0])
    run, other = a_run(1), a_run(2, error_file="/e/2")
    callback.on_trial_results(0, [], run, [{"loss": 0.5, "acc": 1 / 3, "training_iteration": i} for i in (1, 2, 3)])
    now[0] = 1.0
    callback.on_trial_result(0, [], run, {"loss": 0.25, "training_iteration": 4})
    callback.on_trial_result(0, [], run, {"loss": 0.125, "training_iteration": 5})
    callback.on_trial_complete(0, [], run)
    callback.on_trial_recover(0, [], other)
    callback.on_trial_error(0, [], other)
    callback.on_trial_error(0, [], run)
    assert out.getvalue().splitlines() == [
        "MyTrainable_a8200001 iteration 1, loss=0.5, acc=0.333333",
        "MyTrainable_a8200001 iteration 4, loss=0.25",
        "MyTrainable_a8200001 iteration 5, loss=0.125",
        "MyTrainable_a8200001 completed",
        "MyTrainable_a8200002 failed and is tried again",
        "MyTrainable_a8200002 failed: /e/2",
        "MyTrainable_a8200001 failed",
    ]


def test_the_last_result_is_shown_however_soon_and_what_was_asked_for_only() -> None:
    out = io.StringIO()
    callback = TrialProgressCallback(progress_metrics=["a/b"], stream=out, clock=lambda: 0.0)
    callback.on_trial_results(0, [], a_run(), [{"a": {"b": 1}, "c": 2}, {"a": {"b": 2}}, {"a": {"b": 3}, "done": True}])
    assert [line.partition(" ")[2] for line in out.getvalue().splitlines()] == [
        "iteration ?, a/b=1",
        "iteration ?, a/b=3",
    ]


@pytest.mark.parametrize(("verbose", "shown"), [(1, ""), (3, "Result for MyTrainable_a8200000:\n  b: 1\n\n")])
def test_verbosity_says_how_much_of_a_result_is_shown(
    verbose: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = TrialProgressCallback(verbose=verbose)
    callback.on_trial_result(0, [], a_run(), {"b": 1})
    assert capsys.readouterr().out == shown
    for method in (callback.on_trial_complete, callback.on_trial_error, callback.on_trial_recover):
        method(0, [], a_run())
    assert bool(capsys.readouterr().out) == (verbose > 1)


def test_numbers_of_its_own_are_found_up_to_a_limit() -> None:
    reports = [{"pid": 1, "mean_loss": 2, "name": "x", "flag": True, "a": 1}, {"b": 2.5, "a": 3}, {"c": 4}]
    assert own_numbers(reports, 2) == ["a", "b"] and own_numbers(reports, 9) == ["a", "b", "c"]
    assert own_numbers([], 2) == []


def test_tables_of_text_and_html() -> None:
    rows = [["first", 1.0 / 3, None], ["2nd", 12, True]]
    assert text_table(["name", "value", "flag"], rows).splitlines() == [
        "+-------+----------+------+",
        "| name  |    value | flag |",
        "|-------+----------+------|",
        "| first | 0.333333 |      |",
        "| 2nd   |       12 | True |",
        "+-------+----------+------+",
    ]
    assert html_table(["<a>", "b"], [["x & y", 1], [2, None]]) == (
        "<table><thead><tr><th>&lt;a&gt;</th><th>b</th></tr></thead><tbody><tr><td>x &amp; y</td><td>1</td></tr>"
        "<tr><td>2</td><td></td></tr></tbody></table>"
    )
    assert text_table([""], []).splitlines() == ["+--+", "|  |", "|--|", "+--+"]
    assert [cell(value) for value in (None, 1234567.0, 10**9, "text", False)] == [
        "", "1.23457e+06", "1000000000", "text", "False",
    ]  # fmt: skip
    assert [duration(0), duration(3661), duration(90000.9), duration(-5)] == [
        "00:00:00", "01:01:01", "1 days, 01:00:00", "00:00:00",
    ]  # fmt: skip
