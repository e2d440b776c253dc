"""The directory of an experiment: one run at a time uses it, and each run that has no name gets one of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from kernel import tune
from kernel.tune.analysis import ResultGrid
from kernel.tune.schedulers import FIFOScheduler

pytestmark = pytest.mark.usefixtures("session", "results")


def objective(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"]})


def reports(config: dict[str, Any]) -> None:
    tune.report({"loss": 1})


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


@pytest.mark.parametrize("name", ["../../x", "/elsewhere", "a/../..", ".."])
def test_an_experiment_stays_below_its_storage(name: str, results: Path) -> None:
    with pytest.raises(tune.TuneError, match=r"an experiment can't be called .*, which is not below"):
        tune.Tuner(reports, run_config=tune.RunConfig(name=name, verbose=0)).fit()
    assert not results.exists() or not list(results.iterdir())


def test_a_name_that_no_directory_can_have_is_refused(results: Path) -> None:
    with pytest.raises(tune.TuneError, match="no directory can have a NUL in its name"):
        tune.Tuner(reports, run_config=tune.RunConfig(name="a\0b", verbose=0)).fit()
    assert not results.exists() or not list(results.iterdir())


def test_a_trial_stays_below_its_experiment() -> None:
    with pytest.raises(tune.TuneError, match="the directory of a trial can't be called '..'"):
        tune.run(reports, trial_dirname_creator=lambda trial: "..", verbose=0)


def test_directories_of_trials_show_what_was_chosen() -> None:
    space = {"objective_a": tune.choice([0.123456]), "deep": {"b": tune.choice(["c/d"])}, "constant": 1}
    [trial] = tune.run(reports, config=space, verbose=0).trials
    assert Path(trial.logdir).name == f"reports_{trial.trial_id}_0_b=c_d,objective_a=0.1235"
    assert ResultGrid(os.path.dirname(trial.logdir))[0].metrics["trial_id"] == trial.trial_id
    [trial] = tune.run(reports, config=space, trial_name_creator=lambda trial: f"n{trial.trial_id}", verbose=0).trials
    assert Path(trial.logdir).name == f"n{trial.trial_id}_0_b=c_d,objective_a=0.1235"
    [trial] = tune.run(reports, config=space, trial_dirname_creator=lambda trial: "mine", verbose=0).trials
    assert Path(trial.logdir).name == "mine"
    [trial] = tune.run(reports, config={"constant": 1}, verbose=0).trials
    assert Path(trial.logdir).name == f"reports_{trial.trial_id}", "nothing was chosen"


def test_experiments_have_a_storage_path_and_a_checkpoint_config(tmp_path: Path) -> None:
    class Counts(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"done": self.iteration == 4}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

    config = tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=2)
    [trial] = tune.run_experiments(
        {"counts": {"run": Counts, "storage_path": str(tmp_path / "here"), "checkpoint_config": config}}, verbose=0
    )
    assert trial.local_dir == str(tmp_path / "here" / "counts")
    assert len(list(Path(trial.logdir).glob("checkpoint_*"))) == 2
    experiment = tune.Experiment(
        "mine", Counts, storage_path=str(tmp_path), checkpoint_config={"checkpoint_at_end": True}
    )
    assert experiment.checkpoint_dir == str(tmp_path / "mine") and experiment.plan().checkpoints.at_end
    assert tune.Experiment("mine", Counts, storage_path="memory://there").remote_checkpoint_dir == "memory://there/mine"
