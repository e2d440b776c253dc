"""Experiments over real processes: functions and classes, stopping, failing, saving, pausing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import tune
from kernel.tune import schedulers

pytestmark = pytest.mark.usefixtures("session")


def run(trainable: Any, **arguments: Any) -> list[tune.Trial]:
    """Run quietly; return the trials."""
    return tune.run(trainable, verbose=0, return_trials=True, **arguments)  # type: ignore[no-any-return]


def reported(trial: tune.Trial, key: str) -> list[Any]:
    """Return what a trial's result.json has."""
    lines = Path(trial.logdir, "result.json").read_text().splitlines()
    return [json.loads(line)[key] for line in lines]


def count(config: dict[str, Any]) -> None:
    for number in range(config.get("n", 5)):
        tune.report({"score": number * config.get("x", 1)})


class Counter(tune.Trainable):
    """Counts, saves the count, and says in a file how often it was made."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0
        self.log("made")

    def log(self, what: str) -> None:
        with open(os.path.join(self.logdir, "life.txt"), "a") as file:
            file.write(f"{what} {self.count}\n")

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == self.config.get("fails_at") and not os.path.exists("failed"):
            Path("failed").touch()
            raise ValueError("as it was told to")
        return {"count": self.count, "score": self.count * self.config.get("x", 1)}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]
        self.log("restored")

    def cleanup(self) -> None:
        self.log("cleaned up")


def life(trial: tune.Trial) -> list[str]:
    return Path(trial.logdir, "life.txt").read_text().splitlines()


def test_a_grid_runs_each_of_its_points(results: Path) -> None:
    trials = run(count, config={"x": tune.grid_search([1, 2, 3]), "n": 4})
    assert [trial.config["x"] for trial in trials] == [1, 2, 3]
    assert [reported(trial, "score") for trial in trials] == [[0, 1, 2, 3], [0, 2, 4, 6], [0, 3, 6, 9]]
    assert {str(trial.status) for trial in trials} == {"TERMINATED"}
    assert [trial.experiment_tag for trial in trials] == ["0_x=1", "1_x=2", "2_x=3"]
    assert all(Path(trial.logdir).parent.parent == results for trial in trials)


@pytest.mark.parametrize("reuse", [False, True])
def test_what_is_filled_in(results: Path, reuse: bool) -> None:
    trials = run(count, num_samples=2, reuse_actors=reuse)
    for trial in trials:
        last = trial.last_result
        assert last["training_iteration"] == 5 and reported(trial, "training_iteration") == [1, 2, 3, 4, 5]
        assert last["trial_id"] == trial.trial_id and last["pid"] > 0 and last["time_total_s"] >= 0
        assert last["experiment_tag"] == trial.experiment_tag and last["config"] == {}
        assert len(trial.trial_id) == 8 and str(trial) == f"count_{trial.trial_id}"
    assert (trials[0].last_result["pid"] == trials[1].last_result["pid"]) is False or reuse


@pytest.mark.parametrize(
    "stop",
    [{"training_iteration": 3}, {"score": 2}, lambda trial_id, result: result["score"] >= 2],
    ids=["iterations", "threshold", "function"],
)
@pytest.mark.parametrize("trainable", [count, Counter], ids=["function", "class"])
def test_stopping(results: Path, trainable: Any, stop: Any) -> None:
    (trial,) = run(trainable, config={"n": 50}, stop=stop)
    assert (
        trial.results == 3 if not (trainable is Counter and stop != {"training_iteration": 3}) else trial.results == 2
    )
    assert str(trial.status) == "TERMINATED"


def test_a_class_is_cleaned_up_and_works_in_its_directory(results: Path) -> None:
    (trial,) = run(Counter, stop={"training_iteration": 2})
    assert life(trial) == ["made 0", "cleaned up 2"]


def test_checkpoints_are_kept_by_their_score(results: Path) -> None:
    (trial,) = run(
        Counter, stop={"training_iteration": 9}, checkpoint_freq=2, keep_checkpoints_num=2,
        checkpoint_score_attr="min-count", checkpoint_at_end=True,
    )  # fmt: skip
    kept = sorted(path.name for path in Path(trial.logdir).glob("checkpoint_*"))
    assert kept == ["checkpoint_000002", "checkpoint_000004", "checkpoint_000009"]


def test_a_trial_that_fails_goes_on_from_its_checkpoint(results: Path) -> None:
    (trial,) = run(Counter, config={"fails_at": 5}, stop={"training_iteration": 7}, checkpoint_freq=2, max_failures=1)
    assert life(trial) == ["made 0", "cleaned up 5", "made 0", "restored 4", "cleaned up 7"]
    assert reported(trial, "count") == [1, 2, 3, 4, 5, 6, 7]
    assert "ValueError: as it was told to" in Path(trial.logdir, "error.txt").read_text()


def test_without_a_checkpoint_it_begins_again_and_repeats_no_result(results: Path) -> None:
    (trial,) = run(Counter, config={"fails_at": 5}, stop={"training_iteration": 7}, max_failures=1)
    assert life(trial) == ["made 0", "cleaned up 5", "made 0", "cleaned up 7"]
    assert reported(trial, "count") == [1, 2, 3, 4, 5, 6, 7]


def test_failed_trials_raise_when_all_others_have_ended(results: Path) -> None:
    def fails(config: dict[str, Any]) -> None:
        tune.report({"score": 1})
        if config["x"] == 1:
            raise RuntimeError("one is too many")

    with pytest.raises(
        tune.TuneError, match=r"1 of 3 trials failed: fails_\w+; .*\n(.*\n)*RuntimeError: one is too many"
    ):
        run(fails, config={"x": tune.grid_search([0, 1, 2])})
    trials = run(fails, config={"x": tune.grid_search([0, 1, 2])}, raise_on_failed_trial=False)
    assert [str(trial.status) for trial in trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert trials[1].error_message.splitlines()[1].lstrip().startswith("File") and __file__ in trials[1].error_message


def test_fail_fast_ends_the_others(results: Path) -> None:
    def fails(config: dict[str, Any]) -> None:
        for _ in range(10_000):
            if config["x"] == 0:
                raise RuntimeError("at once")
            tune.report({"score": 1})
            time.sleep(0.005)

    trials = run(fails, config={"x": tune.grid_search([0, 1, 2])}, fail_fast=True, raise_on_failed_trial=False)
    assert str(trials[0].status) == "ERROR" and all(trial.has_ended for trial in trials)
    assert sum(trial.results for trial in trials) < 10_000


def test_a_process_that_dies_counts_as_a_failure(results: Path) -> None:
    def dies(config: dict[str, Any]) -> None:
        tune.report({"score": 1})
        if not os.path.exists("died"):
            Path("died").touch()
            os._exit(7)
        tune.report({"score": 2})

    (trial,) = run(dies, max_failures=1)
    assert reported(trial, "score") == [1, 2] and trial.failures == 1


def test_hyperband_pauses_and_resumes_classes(results: Path) -> None:
    scheduler = schedulers.HyperBandScheduler(metric="score", mode="max", max_t=9)
    trials = run(
        Counter, config={"x": tune.uniform(0, 1)}, num_samples=9, scheduler=scheduler, stop={"training_iteration": 9},
        seed=1,
    )  # fmt: skip
    assert all(str(trial.status) == "TERMINATED" for trial in trials)
    assert len({trial.results for trial in trials}) > 1 and max(trial.results for trial in trials) == 9
    assert any("restored" in line for trial in trials for line in life(trial))
    for trial in trials:
        assert reported(trial, "count") == list(range(1, trial.results + 1))


@pytest.mark.parametrize("reuse", [False, True])
def test_population_based_training_copies_states(results: Path, reuse: bool) -> None:
    class Walker(Counter):
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            return True

    scheduler = schedulers.PopulationBasedTraining(
        time_attr="training_iteration", metric="score", mode="max", perturbation_interval=2,
        hyperparam_mutations={"x": [1, 2, 4, 8]}, seed=2,
    )  # fmt: skip
    trials = run(
        Walker, config={"x": tune.grid_search([1, 2, 4, 8])}, scheduler=scheduler, stop={"training_iteration": 8},
        reuse_actors=reuse,
    )  # fmt: skip
    assert any("restored" in line for trial in trials for line in life(trial))
    assert any("@" in trial.experiment_tag for trial in trials)
    lines = Path(trials[0].local_dir, "pbt_global.txt").read_text().splitlines()
    assert lines and all(len(json.loads(line)) == 6 for line in lines)


def test_resources_bound_how_many_run_at_once(results: Path) -> None:
    def watch(config: dict[str, Any]) -> None:
        folder = Path(config["folder"])
        mine = folder / tune.get_context().get_trial_id()
        mine.touch()
        met = Path(f"{folder}.met")
        least, latest = time.monotonic() + 0.2, time.monotonic() + 120
        most = 0
        while time.monotonic() < least or not (met.exists() or time.monotonic() > latest):
            most = max(most, len(list(folder.iterdir())))
            if most >= config["wanted"]:
                met.touch()
            time.sleep(0.01)
        mine.unlink()
        tune.report({"most": most})

    for cpus, wanted in ((2, 1), (0.5, 4)):
        folder = results / f"cpus {cpus}"
        folder.mkdir(parents=True)
        config = {"folder": str(folder), "wanted": wanted}
        trials = run(watch, config=config, num_samples=5, resources_per_trial={"cpu": cpus})
        assert max(trial.last_result["most"] for trial in trials) == wanted


def test_what_no_machine_has_is_an_error_at_once(results: Path) -> None:
    with pytest.raises(tune.TuneError, match=r"trial count_\w+ needs 64 CPU, and all machines together have .*2 CPU"):
        run(count, resources_per_trial={"cpu": 64})


def test_parameters_are_put_once(results: Path) -> None:
    def total(config: dict[str, Any], data: Any = None) -> None:
        tune.report({"score": len(data) + config["x"]})

    trials = run(tune.with_parameters(total, data=b"x" * 300_000), config={"x": tune.grid_search([1, 2])})
    assert [trial.last_result["score"] for trial in trials] == [300_001, 300_002]


def test_older_forms(results: Path) -> None:
    def with_reporter(config: dict[str, Any], reporter: Any) -> None:
        for number in range(100):
            reporter(timesteps_this_iter=1, mean_loss=number, done=number == 3)

    class Writing(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.x = config["x"]

        def step(self) -> dict[str, Any]:
            return {"score": self.x, "done": self.iteration == 2}

        def save_checkpoint(self, folder: str) -> str:
            path = os.path.join(folder, "model.txt")
            Path(path).write_text(str(self.x))
            return path

        def load_checkpoint(self, path: str) -> None:
            self.x = int(Path(path).read_text())

    (trial,) = run(with_reporter)
    assert trial.results == 4 and trial.last_result["timesteps_total"] == 4
    (trial,) = run(Writing, config={"x": 4}, checkpoint_at_end=True)
    assert reported(trial, "score") == [4, 4, 4]
    (checkpoint,) = Path(trial.logdir).glob("checkpoint_*/model.txt")
    older_name = os.path.join(trial.logdir, "checkpoint_3", "checkpoint-3")
    for restored in (str(checkpoint), older_name, os.path.dirname(older_name)):
        (again,) = run(Writing, config={"x": 5}, restore=restored, stop={"training_iteration": 5})
        assert reported(again, "score") == [4, 4] and reported(again, "training_iteration") == [4, 5]


def test_save_and_restore_are_validated() -> None:
    assert tune.validate_save_restore(Counter)
    assert tune.validate_save_restore(Counter, use_object_store=True)

    class Elsewhere(Counter):
        def save_checkpoint(self, checkpoint_dir: str) -> str:  # type: ignore[override]
            return "/somewhere/else"

    with pytest.raises(kernel.exceptions.TaskError, match="not in the directory that it was given"):
        tune.validate_save_restore(Elsewhere)
