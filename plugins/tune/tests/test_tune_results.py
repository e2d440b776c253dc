"""What a run gives back: results, trials, errors of the user's types."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from kernel import tune
from kernel.tune.errors import MetricError, TrialError

pytestmark = pytest.mark.usefixtures("session", "results")


class OddError(ValueError):
    """An exception that takes more than a message."""

    def __init__(self, code: int, *, reason: str = "") -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.reason = reason


def reports(config: dict[str, Any]) -> None:
    tune.report({"loss": config.get("x", 0)})


def raises(config: dict[str, Any]) -> None:
    tune.report({"loss": 1})
    if config["kind"] == "os":
        raise FileNotFoundError(2, "not there", "/nowhere")
    if config["kind"] == "key":
        raise KeyError("which")
    raise OddError(7, reason="odd")


def fit(trainable: Any, space: dict[str, Any] | None = None, name: str | None = None, **run: Any) -> Any:
    return tune.Tuner(trainable, param_space=space or {}, run_config=tune.RunConfig(name=name, verbose=0, **run)).fit()


def test_the_best_of_one_needs_no_metric() -> None:
    assert fit(reports, {"x": 3}).get_best_result().metrics["loss"] == 3
    with pytest.raises(ValueError, match="by which metric"):
        fit(reports, {"x": tune.grid_search([1, 2])}).get_best_result()
    with pytest.raises(MetricError, match="no trial of"):
        fit(reports, {"x": 3}).get_best_result("accuracy")


def test_a_trial_says_where_it_is_what_it_saved_and_what_it_needs() -> None:
    def saves(config: dict[str, Any]) -> None:
        for step in range(2):
            tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step}))

    [trial] = tune.run(saves, resources_per_trial={"cpu": 1, "extra_cpu": 1}, verbose=0).trials
    assert trial.path == trial.local_path == trial.logdir and os.path.isdir(trial.path)
    assert trial.checkpoint.to_dict()["step"] == 1
    assert trial.placement_group_factory == tune.PlacementGroupFactory([{"CPU": 1.0}, {"CPU": 1.0}])
    assert trial.is_finished() and not tune.Trial("t").is_finished()
    [other] = tune.run(reports, verbose=0).trials
    assert other.checkpoint is None and tune.Trial("t").placement_group_factory is None


def test_a_restored_experiment_has_its_results() -> None:
    first = fit(raises, {"kind": tune.grid_search(["odd", "key"])}, name="ended")
    tuner = tune.Tuner.restore(first.experiment_path, raises)
    grid = tuner.get_results()
    assert [result.metrics["loss"] for result in grid] == [1, 1] and grid.num_errors == 2
    assert [type(error).__name__ for error in grid.errors] == ["TrialError[OddError]", "TrialError[KeyError]"]
    assert [result.path for result in tuner.fit()] == [result.path for result in first], "nothing runs again"


def test_errors_are_of_the_type_that_was_raised() -> None:
    grid = fit(raises, {"kind": tune.grid_search(["odd", "os", "key"])})
    odd, not_there, which = grid.errors
    assert isinstance(odd, OddError) and isinstance(odd, TrialError) and (odd.code, odd.reason) == (7, "odd")
    assert str(odd).endswith("OddError: code 7") and "in raises" in str(odd) and odd.args == ("code 7",)
    assert type(odd.cause) is OddError
    assert isinstance(not_there, FileNotFoundError) and not_there.filename == "/nowhere" and not_there.errno == 2
    assert isinstance(which, KeyError) and str(which).endswith("KeyError: 'which'")
    again = pickle.loads(pickle.dumps(odd))
    assert isinstance(again, OddError) and again.code == 7 and str(again) == str(odd)
    assert grid[0].error.code == 7 and (Path(grid[0].path) / "error.pkl").exists()


def test_what_of_an_error_can_not_be_carried_is_left_out() -> None:
    def locks(config: dict[str, Any]) -> None:
        error: Any = ValueError("with a lock")
        error.lock, error.code = threading.Lock(), 3
        raise error

    def decodes(config: dict[str, Any]) -> None:
        b"\xff".decode()

    def hides(config: dict[str, Any]) -> None:
        lock = threading.Lock()

        class HiddenError(Exception):
            held = lock

        raise HiddenError("nobody can read it")

    [error] = fit(locks).errors
    assert isinstance(error, ValueError) and error.code == 3 and not hasattr(error, "lock")
    [error] = fit(decodes).errors
    assert isinstance(error, UnicodeDecodeError) and error.start == 0 and "invalid start byte" in error.reason
    [error] = fit(hides).errors
    assert type(error) is TrialError and str(error).endswith("HiddenError: nobody can read it")


def test_an_error_that_finds_no_room_on_the_disk_is_there_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    class InTheWay(tune.Callback):
        def on_trial_start(self, iteration: int, trials: Any, trial: tune.Trial, **info: Any) -> None:
            os.makedirs(os.path.join(trial.logdir, "error.pkl", "file"))

    grid = fit(raises, {"kind": "odd"}, callbacks=[InTheWay()])
    assert isinstance(grid.errors[0], OddError) and "error.pkl" in caplog.text


@pytest.mark.parametrize("how", ["fit", "run"])
def test_the_first_error_may_be_raised_at_once(how: str) -> None:
    space = {"kind": tune.grid_search(["odd", "odd"])}
    with pytest.raises(OddError, match="code 7") as raised:
        if how == "fit":
            fit(raises, space, name="at_once", failure_config={"fail_fast": "raise"})
        else:
            tune.run(raises, config=space, fail_fast="raise", name="at_once", verbose=0)
    assert raised.value.code == 7
    directory = Path(os.environ["TUNE_RESULT_DIR"], "at_once")
    assert list(directory.glob("*/error.txt")), "it is written down all the same"
    with pytest.raises(ValueError, match="fail_fast is 'rise': it is True, False or 'raise'"):
        tune.FailureConfig(fail_fast="rise")


def test_all_ends_at_the_first_failure_or_trials_are_tried_again() -> None:
    for fail_fast in (True, "raise"):
        with pytest.raises(ValueError, match=f"fail_fast={fail_fast!r} ends all .* max_failures=3 lets"):
            tune.FailureConfig(max_failures=3, fail_fast=fail_fast)
        with pytest.raises(ValueError, match="give one of them"):
            tune.run(raises, fail_fast=fail_fast, max_failures=-1, verbose=0)


@pytest.mark.parametrize("how", ["fit", "run"])
def test_a_metric_that_is_never_reported_is_an_error(how: str) -> None:
    message = "has never reported 'accuracy', and the search for the best trial goes by it .*It reported: loss."
    with pytest.raises(MetricError, match=message):
        if how == "fit":
            tune.Tuner(reports, tune_config={"metric": "accuracy", "mode": "max"}, run_config={"verbose": 0}).fit()
        else:
            tune.run(reports, metric="accuracy", mode="max", verbose=0)


def test_a_metric_that_is_never_reported_may_be_no_more_than_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    assert "loss" in tune.run(reports, metric="accuracy", mode="max", verbose=0).trials[0].last_result


def test_a_metric_that_is_reported_now_and_then_is_none() -> None:
    def seldom(config: dict[str, Any]) -> None:
        tune.report({"loss": 1})
        tune.report({"accuracy": 1.0})
        tune.report({"loss": 2})

    assert tune.run(seldom, metric="accuracy", mode="max", verbose=0).trials[0].results == 3


def test_which_trials_run_again_may_be_said_by_what_had_become_of_them() -> None:
    def run(**more: Any) -> list[int]:
        analysis = tune.run(
            raises, config={"kind": "key"}, name="again", raise_on_failed_trial=False, verbose=0, **more
        )
        return [trial.results for trial in analysis.trials]

    kinds = tune.ResumeConfig.ResumeType
    assert run() == [1]
    assert run(resume=True, resume_config=tune.ResumeConfig()) == [1]
    assert run(resume=True, resume_config=tune.ResumeConfig(errored=kinds.RESUME)) == [1]
    assert run(resume="AUTO", resume_config=tune.ResumeConfig(errored="restart", unfinished="skip")) == [1]
    failures = Path(os.environ["TUNE_RESULT_DIR"], "again")
    [text] = [path.read_text() for path in failures.glob("*/error.txt")]
    assert text.count("Failure number 1") == 3
    assert tune.ResumeConfig(errored="restart", unfinished="skip").words == "RESTART_ERRORED_ONLY"
    with pytest.raises(ValueError, match="finished is ResumeType.RESTART: a trial that has ended well"):
        tune.ResumeConfig(finished=kinds.RESTART)
