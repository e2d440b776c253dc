"""Runs of experiments: when they end, which checkpoints they keep, and that a resumed one leaves the same files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPO
from kernel_rllib.checkpoints import settings_file
from kernel_rllib.errors import CheckpointError, ConfigError
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.running import run_experiment
from kernel_rllib.experiments.stopping import Stopping
from kernel_rllib.experiments.training import Outcome
from kernel_rllib.experiments.variants import variants_of
from kernel_rllib.training import keeping

from kernel_runs.errors import CheckpointError as NotWrittenError
from kernel_runs.errors import RunError
from kernel_runs.loggers.json_logger import JsonLoggerCallback
from kernel_runs.reports import Report
from kernel_runs.run import Run
from kernel_runs.storage.directories import checkpoint_directories

SMALL = {
    "num_env_runners": 0, "num_envs": 2, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1, "seed": 3,
    "model": {"fcnet_hiddens": [8]},
}  # fmt: skip


class Ear:
    """Notes what it hears, and wants the run to end after some iterations."""

    def __init__(self, end_after: int = 1000) -> None:
        self.heard: list[str] = []
        self.end_after = end_after

    def began(self, run: Run) -> None:
        self.heard.append("began")

    def reported(self, run: Run, result: Report) -> None:
        self.heard.append(f"iteration {result['training_iteration']}")

    def saved(self, run: Run, path: str) -> None:
        self.heard.append(f"saved {Path(path).name}")

    def is_stopping(self) -> bool:
        return f"iteration {self.end_after - 1}" in self.heard or self.end_after == 1


def small(directory: Path, **more: Any) -> Experiment:
    """Return an experiment of four short iterations."""
    given = {"config": SMALL, "stop": {"training_iteration": 4}, "local_dir": str(directory), **more}
    return Experiment("mine", "PPO", "CartPole-v1", **given)


def ran(experiment: Experiment, ear: Ear | None = None, *, resume: bool = False) -> list[Outcome]:
    """Run an experiment to its end."""
    ear = ear or Ear()
    return list(run_experiment(experiment, ear, resume=resume, is_stopping=ear.is_stopping))


def results(run: Run) -> list[dict[str, Any]]:
    """Return what is in a run's file of results."""
    return [json.loads(line) for line in (Path(run.logdir) / "result.json").read_text().splitlines()]


def test_a_run_ends_when_a_metric_is_reached_and_leaves_results_and_a_checkpoint(tmp_path: Path) -> None:
    ear = Ear()
    (outcome,) = ran(small(tmp_path), ear)
    assert outcome.reason == "training_iteration is 4, and 4 was asked for" and not outcome.is_interrupted
    assert ear.heard == ["began", *(f"iteration {number}" for number in range(1, 5)), "saved checkpoint_000004"]
    directory = Path(outcome.run.logdir)
    assert directory.parent == tmp_path / "mine" and directory.name.startswith("PPO_CartPole-v1_")
    assert [result["timesteps_total"] for result in results(outcome.run)] == [32, 64, 96, 128]
    assert [result["done"] for result in results(outcome.run)] == [False, False, False, True]
    assert json.loads((directory / "params.json").read_text())["train_batch_size"] == 32
    assert (directory / "progress.csv").exists() and list(directory.glob("events.out.tfevents.*"))
    assert Path(outcome.checkpoint) == directory / "checkpoint_000004"


def test_checkpoints_come_as_often_as_asked_and_the_best_are_kept(tmp_path: Path) -> None:
    (outcome,) = ran(small(tmp_path, checkpoint_freq=1, checkpoint_at_end=False))
    assert [number for number, _ in checkpoint_directories(outcome.run.logdir)] == [1, 2, 3, 4]
    kept = {"checkpoint_freq": 1, "keep_checkpoints_num": 2, "checkpoint_score_attr": "min-training_iteration"}
    (outcome,) = ran(small(tmp_path, **kept))
    assert [number for number, _ in checkpoint_directories(outcome.run.logdir)] == [1, 4]  # the last stays always
    (outcome,) = ran(small(tmp_path, checkpoint_at_end=False))
    assert outcome.checkpoint == ""


def test_an_interrupted_run_is_saved_and_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    (straight,) = ran(small(tmp_path / "a"))
    (first,) = ran(small(tmp_path / "b"), Ear(end_after=2))
    assert first.is_interrupted and Path(first.checkpoint).name == "checkpoint_000002"
    (second,) = ran(small(tmp_path / "b"), resume=True)
    assert second.run.logdir == first.run.logdir
    assert [result["training_iteration"] for result in results(second.run)] == [1, 2, 3, 4]
    weights = "learner_group/learner/rl_module/default_policy/weights.npy"
    one, other = (np.load(Path(outcome.checkpoint) / weights) for outcome in (straight, second))
    assert one.tobytes() == other.tobytes()
    assert ran(small(tmp_path / "b"), resume=True) == []  # it has ended


def test_results_after_the_last_checkpoint_are_made_again(tmp_path: Path) -> None:
    kept = {"checkpoint_freq": 2, "checkpoint_at_end": False}
    (first,) = ran(small(tmp_path, **kept), Ear(end_after=3))
    assert len(results(first.run)) == 3
    (second,) = ran(small(tmp_path, **kept), resume=True)
    assert [result["training_iteration"] for result in results(second.run)] == [1, 2, 3, 4]


def test_a_full_disk_is_said_and_the_checkpoint_before_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(directory: Any, *rest: Any) -> None:
        if len(list(tmp_path.glob("mine/*/checkpoint_*"))) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{directory}/settings.json")
        write(directory, *rest)

    write = settings_file.write_settings
    monkeypatch.setattr(keeping, "write_settings", full)
    with pytest.raises(NotWrittenError, match=r"after iteration 3 .*: no space left .* same command with --resume$"):
        ran(small(tmp_path, checkpoint_freq=1))
    monkeypatch.setattr(keeping, "write_settings", write)
    (outcome,) = ran(small(tmp_path, checkpoint_freq=1), resume=True)
    assert [number for number, _ in checkpoint_directories(outcome.run.logdir)] == [1, 2, 3, 4]
    assert [result["training_iteration"] for result in results(outcome.run)] == [1, 2, 3, 4]
    assert not list(Path(outcome.run.logdir).glob(".*"))


def test_where_results_can_not_be_written_the_algorithm_ends_and_the_first_error_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **info: Any) -> None:
        raise RunError("can't write the end" if info["failed"] else "can't write a result")

    stopped: list[Any] = []
    monkeypatch.setattr(PPO, "cleanup", lambda self: stopped.append(self))
    monkeypatch.setattr(JsonLoggerCallback, "log_trial_end", refuse)
    with pytest.raises(RunError, match="can't write a result"):
        ran(small(tmp_path))
    monkeypatch.setattr(JsonLoggerCallback, "log_trial_results", lambda *_: refuse(failed=False))
    with pytest.raises(RunError, match="can't write a result"):
        ran(small(tmp_path))
    assert len(stopped) == 2


def test_a_run_goes_on_from_a_checkpoint_of_another(tmp_path: Path) -> None:
    (first,) = ran(small(tmp_path))
    (second,) = ran(small(tmp_path, restore=first.checkpoint, stop={"training_iteration": 5}))
    assert [result["training_iteration"] for result in results(second.run)] == [5]
    with pytest.raises(CheckpointError, match="there is no checkpoint /nowhere to go on from"):
        ran(small(tmp_path, restore="/nowhere"))


def test_nothing_is_resumed_that_did_not_begin_or_began_otherwise(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is nothing to resume in .*mine: no run of this experiment began"):
        ran(small(tmp_path), resume=True)
    ran(small(tmp_path), Ear(end_after=1))
    with pytest.raises(ConfigError, match="began with 1 runs, and now there would be 2"):
        ran(small(tmp_path, num_samples=2), resume=True)


def test_grids_become_runs_in_their_order(tmp_path: Path) -> None:
    grid = {"lr": {"grid_search": [0.1, 0.2]}, "model": {"fcnet_hiddens": {"grid_search": [[8], [4]]}}, "gamma": 0.5}
    found = variants_of(Experiment("mine", "PPO", "CartPole-v1", grid, num_samples=2))
    assert [variant.index for variant in found] == list(range(8))
    assert found[1].config == {"lr": 0.1, "model": {"fcnet_hiddens": [4]}, "gamma": 0.5}
    assert found[2].chosen == {"lr": 0.2, "model/fcnet_hiddens": [8]} and found[2].tag == "lr=0.2,fcnet_hiddens=[8]"
    envs = variants_of(Experiment("mine", "PPO", {"grid_search": ["a", "b"]}))
    assert [variant.env for variant in envs] == ["a", "b"] and envs[1].chosen == {"env": "b"}


def test_each_run_of_a_grid_has_a_directory(tmp_path: Path) -> None:
    experiment = small(tmp_path, config={**SMALL, "lr": {"grid_search": [0.1, 0.2]}}, stop={"training_iteration": 1})
    first, second = ran(experiment)
    assert [results(outcome.run)[0]["config"]["lr"] for outcome in (first, second)] == [0.1, 0.2]
    assert results(second.run)[0]["experiment_tag"] == "1_lr=0.2" and "lr=0.2" in second.run.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"lr": {"grid_search": 0.1}}}, "grid_search of lr is 0.1, but must be a list of values"),
        ({"config": {"lr": {"sample_from": "x"}}}, "lr/sample_from is to be drawn at random, which only Tune does"),
        ({"config": {"lrr": 0.1}}, "PPOConfig has no setting 'lrr'; did you mean 'lr'"),
        ({"run": "PPOO"}, "there is no algorithm 'PPOO'; did you mean 'PPO'"),
        ({"env": "CartPol-v1"}, "no environment is named 'CartPol-v1'. Did you mean 'CartPole-v1'"),
        ({"stop": {"time_total_s": "1h"}}, r"stop\['time_total_s'\] is '1h', but must be the number that ends the run"),
        ({"name": "../mine"}, "an experiment can't be called '../mine'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        ran(small(tmp_path).with_(**change))
    assert list(tmp_path.iterdir()) == []


def test_a_metric_that_results_do_not_have_is_told_with_the_nearest() -> None:
    result = {"training_iteration": 1, "env_runners": {"episode_return_mean": 5.0}}
    assert Stopping({"env_runners/episode_return_mean": 6}).reason(result) == ""
    assert Stopping({"env_runners/episode_return_mean": 5}).reason(result).startswith("env_runners/episode_return_mean")
    with pytest.raises(ConfigError, match="'training_iter', which results do not have; did you mean 'training_iterat"):
        Stopping({"training_iter": 1}).reason(result)
    with pytest.raises(ConfigError, match="must be the number"):
        Stopping({"done": True})
