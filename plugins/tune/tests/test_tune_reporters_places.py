"""The first arguments of reporters may be given by their places, as those of Ray."""

from __future__ import annotations

from kernel_tune.trial import Trial

from kernel import tune


def test_of_the_reporter_for_the_command_line() -> None:
    trials = [Trial("f", name=f"f_{number}", last_result={"score": number, "loss": 2}) for number in range(3)]
    shown = tune.CLIReporter({"score": "points"}, 2, 5, 0.5).progress_text(trials, False)
    assert "points" in shown and "loss" not in shown and "1 more trials not shown" in shown


def test_of_the_reporter_for_notebooks() -> None:
    trials = [Trial("f", name=f"f_{number}", last_result={"score": number, "loss": 2}) for number in range(3)]
    page = tune.JupyterNotebookReporter(True, ["score"], 2).page(trials, False)
    assert "score" in page and "loss" not in page and "1 more trials not shown" in page
