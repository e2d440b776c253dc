"""The directory of an experiment: one run at a time uses it, and each run that has no name gets one of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kernel import tune
from kernel.tune.schedulers import FIFOScheduler

pytestmark = pytest.mark.usefixtures("session", "results")


def objective(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"]})


def run(x: int, **arguments: Any) -> tune.ExperimentAnalysis:
    return tune.run(objective, **{"config": {"x": x}, "verbose": 0, **arguments})


@pytest.mark.parametrize("resume", [False, "AUTO"])
def test_an_experiment_that_is_being_run_is_left_alone(resume: bool | str) -> None:
    said: list[str] = []

    class RunsAnother(tune.Callback):
        def on_trial_result(self, *arguments: Any, **info: Any) -> None:
            with pytest.raises(tune.TuneError) as caught:
                run(2, name="mine", resume=resume)
            said.append(str(caught.value))

    analysis = run(1, name="mine", callbacks=[RunsAnother()])
    (text,) = said
    assert "mine is being run already, by this program or another one: give this one another name, or wait" in text
    assert [trial.config for trial in analysis.trials] == [{"x": 1}]
    again = run(3, name="mine", resume=True)
    assert [(trial.config, trial.results) for trial in again.trials] == [({"x": 1}, 1)]


def test_an_experiment_that_could_not_be_resumed_can_be_tried_again_by_the_same_program() -> None:
    class MyScheduler(FIFOScheduler):
        def on_trial_result(self, runner: Any, trial: tune.Trial, result: Any) -> str:
            raise ArithmeticError("as it was told to")

    for _ in range(2):
        with pytest.raises(tune.TuneError, match="MyScheduler raised ArithmeticError"):
            run(1, name="mine", resume="AUTO", scheduler=MyScheduler())


def test_two_runs_without_a_name_in_one_second_have_directories_of_their_own(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda form, *moment: "now")
    found = [run(x) for x in (1, 2, 3)]
    assert [Path(each.experiment_path).name for each in found] == [
        "objective_now",
        "objective_now_2",
        "objective_now_3",
    ]
    assert [tune.ExperimentAnalysis(each.experiment_path).get_all_configs() for each in found] == [
        [{"x": 1}], [{"x": 2}], [{"x": 3}],
    ]  # fmt: skip


def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(tune.TuneError, match=r"directory .*/file/mine can't be made use of: Not a directory\. Give"):
        run(1, name="mine", local_dir=str(tmp_path / "file"))
    with pytest.raises(tune.TuneError, match="Not a directory"):
        run(1, local_dir=str(tmp_path / "file"))
