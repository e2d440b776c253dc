"""What may be a trainable, what is given to it, and what it may report."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import tune
from kernel.tune.schedulers import ASHAScheduler

pytestmark = pytest.mark.usefixtures("session", "results")


def fit(trainable: Any, space: dict[str, Any] | None = None, **settings: Any) -> Any:
    return tune.Tuner(
        trainable, param_space=space or {}, tune_config=settings, run_config=tune.RunConfig(verbose=0)
    ).fit()


def test_a_lambda_is_a_trainable() -> None:
    grid = fit(lambda config: {"loss": config["x"]}, {"x": tune.grid_search([1, 2])})
    assert [result.metrics["loss"] for result in grid] == [1, 2]
    assert Path(grid[0].path).name.startswith("lambda_")


def test_trainables_of_one_name_stay_apart() -> None:
    analysis = tune.run(
        {"one": {"run": lambda config: {"loss": 1}}, "two": {"run": lambda config: {"loss": 2}}}, verbose=0
    )
    assert {trial.local_dir.rpartition("/")[2]: trial.last_result["loss"] for trial in analysis.trials} == {
        "one": 1, "two": 2
    }  # fmt: skip
    assert {trial.trainable_name for trial in analysis.trials} == {"lambda", "lambda_2"}


def test_parameters_are_given_to_what_has_resources_already() -> None:
    def train(config: dict[str, Any], data: Any = None) -> dict[str, Any]:
        return {"total": sum(data)}

    grid = fit(tune.with_parameters(tune.with_resources(train, {"cpu": 2}), data=[1, 2, 3]))
    assert grid[0].metrics["total"] == 6
    assert grid.analysis.trials[0].resources.cpu == 2 and grid.analysis.trials[0].trainable_name == "train"


def test_parameters_leave_room_for_a_reporter() -> None:
    def train(config: dict[str, Any], reporter: Any, data: Any = None) -> None:
        reporter(total=sum(data))

    def restores(config: dict[str, Any], checkpoint_dir: str | None = None, data: Any = None) -> dict[str, Any]:
        return {"total": sum(data), "anew": checkpoint_dir is None}

    assert fit(tune.with_parameters(train, data=[1, 2]))[0].metrics["total"] == 3
    metrics = fit(tune.with_parameters(restores, data=[1, 2]))[0].metrics
    assert metrics["total"] == 3 and metrics["anew"] is True


def test_a_partial_function_has_the_name_of_its_function() -> None:
    def train(config: dict[str, Any], more: int) -> dict[str, Any]:
        return {"more": more}

    grid = fit(functools.partial(train, more=2))
    assert grid[0].metrics["more"] == 2 and Path(grid[0].path).name.startswith("train_")


def test_a_parameter_may_be_in_the_object_store_already() -> None:
    def train(config: dict[str, Any], data: Any = None) -> dict[str, Any]:
        return {"total": sum(data)}

    assert fit(tune.with_parameters(train, data=kernel.put([1, 2, 3])))[0].metrics["total"] == 6


@pytest.mark.parametrize("given", ["with_resources", "resources_per_trial"])
def test_resources_may_be_a_function_of_the_configuration(given: str) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"cpus": kernel.get_runtime_context().get_assigned_resources()["CPU"]}

    space = {"x": tune.grid_search([1, 2])}
    if given == "with_resources":
        trials = fit(tune.with_resources(train, lambda config: {"cpu": config["x"]}), space).analysis.trials
    else:
        trials = tune.run(
            train, config=space, resources_per_trial=lambda config: {"cpu": config["x"]}, verbose=0
        ).trials
    assert [trial.last_result["cpus"] for trial in trials] == [1, 2]


def test_a_number_that_is_returned_is_what_schedulers_and_searchers_go_by() -> None:
    def square(config: dict[str, Any]) -> float:
        return float(config["x"] ** 2)

    grid = fit(square, {"x": tune.grid_search([3, 2])}, scheduler=ASHAScheduler(), mode="min")
    assert grid.get_best_result().config == {"x": 2} and not grid.errors
    assert fit(square, {"x": tune.grid_search([3, 2])}, scheduler=ASHAScheduler()).get_best_result().config == {"x": 3}
    searched = fit(square, {"x": tune.uniform(-1, 1)}, search_alg="tpe", mode="min", num_samples=3)
    assert len(searched) == 3 and not searched.errors


@pytest.mark.parametrize("value", [[5], "high", 5, None])
def test_a_report_that_is_no_dict_is_an_error_of_its_trial(value: Any) -> None:
    def train(config: dict[str, Any]) -> None:
        if value is None:
            tune.report(metrics=[1])
        tune.report(value)

    [error] = fit(train).errors
    assert isinstance(error, TypeError) and "report() takes metrics as a dict or as keywords, not" in str(error)


@pytest.mark.parametrize(("value", "hint"), [("place", ": Checkpoint.from_directory('place')"), ({"a": 1}, "")])
def test_what_is_saved_and_is_no_checkpoint_is_an_error_of_its_trial(value: Any, hint: str) -> None:
    [error] = fit(lambda config: tune.report({"loss": 1}, checkpoint=value)).errors
    assert isinstance(error, TypeError)
    assert f"report() takes a Checkpoint as checkpoint, not {value!r}{hint}\n" in f"{error}\n"


def test_what_is_returned_and_is_no_metric_is_an_error_of_its_trial() -> None:
    [error] = fit(lambda config: ["loss"]).errors
    assert isinstance(error, TypeError)
    assert "returns or yields a dict of metrics, or one number, and not ['loss']" in str(error)


def test_a_report_from_a_task_of_a_trial_is_an_error() -> None:
    @kernel.remote(num_cpus=0)
    def reports() -> None:
        tune.report({"loss": 1})

    [error] = fit(lambda config: kernel.get(reports.remote())).errors
    assert isinstance(error, tune.TuneError) and "only a trial's own process reports" in str(error)


def test_a_report_in_a_class_is_an_error_of_its_trial() -> None:
    class Reports(tune.Trainable):
        def step(self) -> dict[str, Any]:
            tune.report({"loss": 1})
            return {"done": True}

    [error] = fit(Reports).errors
    assert "report() was called in a Trainable class" in str(error)


class Told(tune.Trainable):
    """Writes down what is called."""

    def tell(self, what: str) -> None:
        with open(self.config["file"], "a") as file:
            file.write(what + "\n")

    def setup(self, config: dict[str, Any]) -> None:
        self.tell("setup")

    def step(self) -> dict[str, Any]:
        self.tell("step")
        if self.iteration == self.config.get("fails"):
            raise ValueError("no more")
        return {"done": self.iteration == self.config.get("last")}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        self.tell("save")
        return {}

    def log_result(self, result: dict[str, Any]) -> None:
        self.tell("log")

    def cleanup(self) -> None:
        self.tell("cleanup")


ENDS: dict[str, dict[str, Any]] = {
    "by itself": {"config": {"last": 1}},
    "by a threshold": {"stop": {"training_iteration": 2}},
    "by a function": {"stop": lambda trial_id, result: result["training_iteration"] == 2},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("at_end", [True, False])
def test_a_class_is_called_in_order_and_saves_at_the_end_where_asked(end: str, at_end: bool, tmp_path: Path) -> None:
    file = tmp_path / "told"
    config = {"file": str(file), **ENDS[end].get("config", {})}
    analysis = tune.run(Told, **{**ENDS[end], "config": config}, checkpoint_at_end=at_end, verbose=0)
    saves = ["save"] if at_end else []
    assert file.read_text().split() == ["setup", "step", "log", "step", "log", *saves, "cleanup"]
    assert (analysis.trials[0].checkpoint is not None) is at_end


@pytest.mark.parametrize("asked", [None, True, False])
def test_a_tuner_saves_a_class_at_the_end_unless_told_otherwise(asked: bool | None, tmp_path: Path) -> None:
    chosen = tune.CheckpointConfig(checkpoint_at_end=asked)
    settings = tune.RunConfig(checkpoint_config=chosen, verbose=0, storage_path=str(tmp_path))
    (result,) = tune.Tuner(Told, param_space={"file": str(tmp_path / "told"), "last": 0}, run_config=settings).fit()
    saves = [] if asked is False else ["save"]
    assert (tmp_path / "told").read_text().split() == ["setup", "step", "log", *saves, "cleanup"]
    assert (result.checkpoint is not None) is (asked is not False)


def test_a_class_that_can_not_save_is_saved_at_the_end_only_where_that_was_asked_for(tmp_path: Path) -> None:
    class Forgets(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"done": True}

    class Saves(Forgets):
        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

    def fitted(trainable: Any, **asked: bool) -> Any:
        chosen = tune.CheckpointConfig(**asked)
        settings = tune.RunConfig(checkpoint_config=chosen, storage_path=str(tmp_path), verbose=0)
        return tune.Tuner(trainable, run_config=settings).fit()

    assert fitted(Forgets).errors == [] and fitted(Forgets)[0].checkpoint is None
    assert fitted(Saves)[0].checkpoint is not None
    (error,) = fitted(Forgets, checkpoint_at_end=True).errors
    assert isinstance(error, NotImplementedError)


def test_a_function_is_told_that_it_saves_itself() -> None:
    for given in ({"checkpoint_at_end": True}, {"checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True)}):
        with pytest.raises(ValueError, match="checkpoint_at_end is for Trainable classes, but .* is a function"):
            tune.run(lambda config: {"v": 1}, verbose=0, **given)


def test_a_class_that_saved_with_its_last_result_is_not_saved_again(tmp_path: Path) -> None:
    file = tmp_path / "told"
    tune.run(Told, config={"file": str(file), "last": 1}, checkpoint_freq=2, checkpoint_at_end=True, verbose=0)
    assert file.read_text().split() == ["setup", "step", "log", "step", "log", "save", "cleanup"]


def test_a_class_that_raises_is_not_saved_and_cleans_up(tmp_path: Path) -> None:
    file = tmp_path / "told"
    tune.run(Told, config={"file": str(file), "fails": 0}, checkpoint_at_end=True, verbose=0,
             raise_on_failed_trial=False)  # fmt: skip
    assert file.read_text().split() == ["setup", "step", "cleanup"]


def test_counts_that_begin_with_none_are_columns_from_the_first_result_on() -> None:
    class Plays(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"episodes_this_iter": self.iteration, "timesteps_this_iter": 0, "done": self.iteration == 2}

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        [trial] = tune.run(Plays, verbose=0).trials
    assert (trial.last_result["episodes_total"], trial.last_result["timesteps_total"]) == (3, 0)
