"""What `tune.run` and `Tuner` take, and what they say to what they do not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernel_tune.execution.resuming import Resume, parse_resume

from kernel import tune

pytestmark = pytest.mark.usefixtures("session", "results")


def objective(config: dict[str, Any]) -> None:
    tune.report({"loss": 1})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, Resume()),
        (False, Resume()),
        (True, Resume("LOCAL")),
        ("auto", Resume("AUTO")),
        ("PROMPT", Resume("PROMPT")),
        ("REMOTE", Resume("REMOTE")),
        ("ERRORED", Resume("LOCAL", retries=True)),
        ("RESTART_ERRORED", Resume("LOCAL", retries=True, anew=True)),
        ("LOCAL_ONLY", Resume("LOCAL", drops=True)),
        ("ERRORED_ONLY", Resume("LOCAL", retries=True, drops=True)),
        ("AUTO+ERRORED", Resume("AUTO", retries=True)),
        ("AUTO+RESTART_ERRORED_ONLY", Resume("AUTO", retries=True, anew=True, drops=True)),
        ("REMOTE+RESTART_ERRORED", Resume("REMOTE", retries=True, anew=True)),
    ],
)
def test_what_resume_may_be(given: Any, meant: Resume) -> None:
    assert parse_resume(given) == meant


@pytest.mark.parametrize("given", ["AUTOMATIC", "AUTO+", "ERRORED+AUTO", "AUTO+ERRORED+ONLY", "", 3])
def test_what_resume_may_not_be(given: Any) -> None:
    with pytest.raises(ValueError, match=f"resume is {given!r}: ".replace("+", r"\+") + ".* such as 'AUTO.ERRORED'"):
        tune.run(objective, resume=given, verbose=0)


def test_failed_trials_go_on_where_the_experiment_is_there() -> None:
    def fails_once(config: dict[str, Any]) -> None:
        if not Path("tried").exists():
            Path("tried").touch()
            raise ValueError("the first time")
        tune.report({"loss": 1})

    settings: dict[str, Any] = {"name": "mine", "verbose": 0, "raise_on_failed_trial": False, "resume": "AUTO+ERRORED"}
    (trial,) = tune.run(fails_once, **settings).trials
    assert str(trial.status) == "ERROR"
    (trial,) = tune.run(fails_once, **settings).trials
    assert str(trial.status) == "TERMINATED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": "4"}, "num_samples is '4', but must be a whole number, at least -1"),
        ({"num_samples": 2.5}, "num_samples is 2.5, but must be a whole number"),
        ({"max_failures": -5}, "max_failures is -5, but must be a whole number, at least -1"),
        ({"max_concurrent_trials": -1}, "max_concurrent_trials is -1, but must be a whole number, at least 0"),
        ({"keep_checkpoints_num": 0}, "^tune: keep_checkpoints_num is 0, but must be a whole number, at least 1"),
        ({"checkpoint_freq": -1}, "^tune: checkpoint_freq is -1, but must be a whole number, at least 0"),
        ({"time_budget_s": "x"}, "^tune: time_budget_s is 'x', but must be a number at least 0"),
        ({"upload_dir": 5}, "^tune: upload_dir is 5, but must be a path or an address"),
        ({"callbacks": 5}, "^tune: callbacks is 5, but must be a list of tune.Callback objects"),
        ({"callbacks": [5]}, "^tune: 5, one of callbacks, is not a tune.Callback: derive its class from it$"),
        ({"callbacks": [tune.Callback]}, r"one of callbacks, is not a tune.Callback: give an object, Callback\(\)$"),
        ({"loggers": 5}, "^tune: loggers is 5, but must be a list or tuple of loggers"),
        ({"loggers": [5]}, "^tune: 5, one of loggers, is neither a LoggerCallback nor a class like Logger"),
        ({"progress_reporter": 5}, "^tune: progress_reporter is 5, but must be a tune.ProgressReporter"),
        (
            {"trial_name_creator": lambda trial: 1 / 0},
            "trial_name_creator raised ZeroDivisionError for trial obj",
        ),
        (
            {"trial_dirname_creator": lambda trial: 1 / 0},
            "trial_dirname_creator raised ZeroDivisionError for",
        ),
    ],
)
def test_arguments_that_can_not_be_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(tune.TuneError, match=message):
        tune.run(objective, verbose=0, **arguments)


def test_the_parts_of_a_run_config_may_be_dicts() -> None:
    config = tune.RunConfig(
        checkpoint_config={"num_to_keep": 2}, sync_config={"sync_period": 5}, failure_config={"max_failures": 1}
    )  # type: ignore[arg-type]
    assert config.checkpoint_config == tune.CheckpointConfig(num_to_keep=2)
    assert config.sync_config == tune.SyncConfig(sync_period=5)
    assert config.failure_config == tune.FailureConfig(max_failures=1)
    assert tune.RunConfig(sync_config=None).sync_config == tune.SyncConfig()  # type: ignore[arg-type]


def test_a_decision_that_is_none_is_named() -> None:
    class Forgets(tune.schedulers.FIFOScheduler):
        def on_trial_result(self, runner: Any, trial: tune.Trial, result: Any) -> Any:
            return None

    with pytest.raises(tune.TuneError, match=r"Forgets.on_trial_result\(\) returned None: it returns one of CONTINUE"):
        tune.run(objective, scheduler=Forgets(), verbose=0)


def test_a_searcher_need_not_call_the_constructor_of_ours() -> None:
    class Own(tune.Searcher):
        def __init__(self) -> None:
            self.told: list[Any] = []

        def suggest(self, trial_id: str) -> dict[str, Any]:
            return {"x": 1}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            self.told.append(result[self.metric])

    searcher = Own()
    tune.run(objective, search_alg=searcher, metric="loss", mode="min", num_samples=2, verbose=0)
    assert searcher.told == [1, 1] and searcher.mode == "min"


def test_restoring_leaves_the_run_config_as_it_was(results: Path) -> None:
    tune.Tuner(objective, run_config=tune.RunConfig(name="mine", verbose=0)).fit()
    config = tune.RunConfig(verbose=0)
    assert len(tune.Tuner.restore(str(results / "mine"), objective, run_config=config).fit()) == 1
    assert config == tune.RunConfig(verbose=0)


def test_an_iterator_that_is_at_its_end_is_a_failure() -> None:
    def runs_out(config: dict[str, Any]) -> None:
        batches = iter([1, 2])
        while True:
            tune.report({"loss": next(batches)})

    with pytest.raises(tune.TuneError, match=r"(?s)1 of 1 trials failed.*next\(batches\).*StopIteration"):
        tune.run(runs_out, verbose=0)
