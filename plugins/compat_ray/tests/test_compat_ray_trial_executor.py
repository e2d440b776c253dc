"""Driving trials by hand."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_compat_ray.tune.ray_trial_executor import RayTrialExecutor
from kernel_compat_ray.tune.run import run, run_experiments
from kernel_compat_ray.tune.trial_executor import AbortTrialExecution, TrialExecutor

import kernel
from kernel import tune

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    return tmp_path / "results"


class Counter(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = config.get("start", 0)
        if config.get("fails"):
            raise ValueError("as it was told to")

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == self.config.get("dies_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"count": self.count, "done": self.count == 5}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.config.get("loads_nothing"):
            raise ValueError("can't be loaded")
        self.count = checkpoint["count"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return "start" in new_config

    def export_model(self, export_formats: Any, export_dir: str | None = None) -> dict[str, str]:
        return dict.fromkeys(export_formats, "model")


@pytest.fixture
def executor(results: Path) -> Iterator[RayTrialExecutor]:
    tune.register_trainable("counter", Counter)
    made = RayTrialExecutor()
    yield made
    made.cleanup()


def a_trial(**config: Any) -> tune.Trial:
    return tune.Trial("counter", config=config)


def next_count(executor: RayTrialExecutor, trial: tune.Trial) -> int:
    executor.continue_training(trial)
    count: int = executor.fetch_result(trial)["count"]
    return count


def test_a_loop_of_ones_own(executor: RayTrialExecutor) -> None:
    trials = [a_trial(start=0), a_trial(start=2)]
    for trial in trials:
        assert executor.start_trial(trial)
    assert executor.get_running_trials() == trials and not executor.has_resources({"cpu": 1})
    assert "2/2 CPU" in executor.debug_string() and not executor.has_gpus()
    with pytest.raises(tune.TuneError, match="no room for trial .*in use are 2/2 CPU.*; queue_trials=True waits"):
        executor.start_trial(a_trial())
    steps = 0
    while executor.get_running_trials():
        executor.on_step_begin(None)
        trial = executor.get_next_available_trial()
        if executor.fetch_result(trial)["done"]:
            executor.stop_trial(trial)
        else:
            executor.continue_training(trial)
        executor.on_step_end(None)
        steps += 1
    assert steps == 8 and [trial.last_result["count"] for trial in trials] == [5, 5]
    assert [str(trial.status) for trial in trials] == ["TERMINATED"] * 2 and executor.has_resources({"cpu": 2})
    kept = executor.get_checkpoints()
    assert set(kept) == {trial.trial_id for trial in trials}
    assert executor.remembered(kept[trials[0].trial_id]).last_result["count"] == 5
    with pytest.raises(tune.TuneError, match="no trial was asked for a result"):
        executor.get_next_available_trial()
    with pytest.raises(tune.TuneError, match="is TERMINATED and has no process"):
        executor.continue_training(trials[0])


def test_pausing_frees_resources_and_keeps_a_result_that_was_on_its_way(executor: RayTrialExecutor) -> None:
    trial = a_trial()
    executor.start_trial(trial)
    executor.pause_trial(trial)
    assert str(trial.status) == "PAUSED" and executor.has_resources({"cpu": 2}) and trial.results == 0
    executor.resume_trial(trial)
    assert executor.get_next_available_trial() is trial and executor.fetch_result(trial)["count"] == 1
    assert next_count(executor, trial) == 2
    executor.pause_trial(trial)
    with pytest.raises(tune.TuneError, match="is PAUSED and has no process"):
        executor.continue_training(trial)
    executor.unpause_trial(trial)
    assert str(trial.status) == "PENDING"
    with pytest.raises(tune.TuneError, match="is PENDING: only a paused one can be resumed"):
        executor.resume_trial(trial)
    executor.start_trial(trial)
    assert executor.fetch_result(trial)["count"] == 3
    executor.pause_trial(trial)
    executor.resume_trial(trial)
    assert executor.fetch_result(trial)["count"] == 4


@pytest.mark.parametrize("storage", ["persistent", "memory"])
def test_saving_and_restoring(executor: RayTrialExecutor, storage: str) -> None:
    trial = a_trial()
    with pytest.raises(RuntimeError, match="has no process to restore into: start_trial"):
        executor.restore(trial)
    executor.start_trial(trial)
    saved = executor.save(trial, storage)
    assert executor.fetch_result(trial)["count"] == 1
    assert next_count(executor, trial) == 2
    assert executor.restore(trial, saved) and next_count(executor, trial) == 2
    assert executor.restore(trial) and next_count(executor, trial) == (2 if storage == "persistent" else 3)
    other = a_trial()
    executor.start_trial(other, saved)
    assert executor.fetch_result(other)["count"] == 2
    if storage == "persistent":
        shutil.rmtree(saved.path)
        with pytest.raises(AbortTrialExecution, match="it is not on this machine"):
            executor.restore(trial)


def test_what_fails_is_an_error_of_the_trial(executor: RayTrialExecutor, caplog: pytest.LogCaptureFixture) -> None:
    broken = a_trial(fails=True)
    assert not executor.start_trial(broken, train=False)
    assert str(broken.status) == "ERROR" and "ValueError: as it was told to" in broken.error_message
    killed = a_trial(dies_at=1)
    executor.start_trial(killed)
    assert executor.get_next_available_trial() is executor.get_next_failed_trial() is killed
    with pytest.raises(tune.TuneError, match=r"has failed: its process gave no answer: .*SIGKILL"):
        executor.fetch_result(killed)
    executor.stop_trial(killed, error=True, error_msg="it died")
    assert str(killed.status) == "ERROR" and killed.error_message == "it died"
    unloading = a_trial(loads_nothing=True)
    executor.start_trial(unloading)
    assert executor.fetch_result(unloading)["count"] == 1
    assert not executor.restore(unloading, executor.save(unloading)) and str(unloading.status) == "ERROR"
    assert executor.get_running_trials() == [] and executor.has_resources({"cpu": 2})
    assert not caplog.records


def test_other_configurations_and_exports(executor: RayTrialExecutor) -> None:
    trial = a_trial()
    executor.start_trial(trial)
    executor.fetch_result(trial)
    assert executor.reset_trial(trial, {"start": 3}, "another") and next_count(executor, trial) == 4
    assert not executor.reset_trial(trial, {}, "refused")
    assert executor.export_trial_if_needed(trial) == {}
    trial.extra["export_formats"] = ["model"]
    assert executor.export_trial_if_needed(trial) == {"model": "model"}


def test_what_can_not_be_pickled_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    executor, trial = (
        TrialExecutor(queue_trials=True),
        tune.Trial("counter", trial_id="a", config={"x": (i for i in ())}),
    )
    executor.set_status(trial, "ERROR")
    assert executor.get_checkpoints() == {} and "can't be remembered: TypeError" in caplog.text
    assert executor.queue_trials and pickle.dumps(trial.status)


def test_an_experiment_takes_the_settings_of_an_executor(results: Path) -> None:
    tune.register_trainable("counter", Counter)

    class Waits(tune.Callback):
        def on_trial_result(self, *arguments: Any, **info: Any) -> None:
            pids.add(arguments[3]["pid"])

    pids: set[int] = set()
    executor = RayTrialExecutor(reuse_actors=True)
    arguments: dict[str, Any] = {"resources_per_trial": {"cpu": 2}, "verbose": 0, "callbacks": [Waits()]}
    run("counter", config={"start": 3}, num_samples=3, trial_executor=executor, **arguments)
    assert len(pids) == 1
    run_experiments({"e": {"run": "counter", "num_samples": 2}}, trial_executor=RayTrialExecutor(), verbose=0)

    class Mine(RayTrialExecutor):
        def start_trial(self, *arguments: Any, **named: Any) -> bool:
            return True

    with pytest.raises(tune.TuneError, match=r"trial_executor is a Mine: .* are made use of, its methods are not"):
        run("counter", trial_executor=Mine(), verbose=0)
    with pytest.raises(tune.TuneError, match="trial_executor is 'ray': "):
        run("counter", trial_executor="ray", verbose=0)


def test_arguments_have_the_places_and_names_that_they_had(results: Path) -> None:
    class Constant(tune.Searcher):
        def suggest(self, trial_id: str) -> dict[str, Any]:
            return {"start": 4}

    with pytest.warns(DeprecationWarning, match=r"algo of tune.run\(\) is an old name; use search_alg") as warned:
        (trial,) = run(Counter, "by_place", algo=Constant(), verbose=0).trials
    assert (trial.config, Path(trial.local_dir).name, warned[0].filename) == ({"start": 4}, "by_place", __file__)
    with pytest.warns(UserWarning, match="sync_on_checkpoint of tune.run"):
        run(Counter, None, {"training_iteration": 1}, sync_on_checkpoint=False, ray_auto_init=False, verbose=0)
    for wrong, message in (
        (lambda: run(Counter, "a", name="b"), r"tune.run\(\) got name twice: by its place and by its name"),
        (lambda: run_experiments(*range(14)), r"tune.run_experiments\(\) takes at most 13 arguments without a name"),
    ):
        with pytest.raises(TypeError, match=message):
            wrong()
    kernel.shutdown()
    with pytest.raises(tune.TuneError, match=r"there is no session, and ray_auto_init=False: call ray.init\(\) before"):
        run(Counter, ray_auto_init=False, verbose=0)
