"""`rllib train`: what it takes, what it shows, what it refuses."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kernel_rllib.cli.display import Lines, Picture, display_for
from kernel_rllib.cli.main import rllib
from kernel_rllib.cli.train import experiment_for
from kernel_rllib.cli.training import with_options
from kernel_rllib.errors import MissingDependencyError
from kernel_rllib.experiments import training
from kernel_rllib.experiments.experiment import Experiment

from kernel_runs.run import Run

CONFIG = {
    "num_env_runners": 0, "num_envs": 2, "train_batch_size": 32, "minibatch_size": 16, "num_epochs": 1,
    "model": {"fcnet_hiddens": [8]},
}  # fmt: skip
STOP = '{"training_iteration": 2}'


def called(*arguments: Any) -> Result:
    """Return what a command line did."""
    return CliRunner().invoke(rllib, [str(argument) for argument in arguments])


def shown(result: Result, name: str) -> str:
    """Return what stands behind a name at the end of the output."""
    (line,) = (line for line in result.output.splitlines() if line.startswith(f"{name}:"))
    return line.partition(":")[2].strip()


def test_a_run_is_shown_line_by_line_and_told_at_the_end(tmp_path: Path) -> None:
    result = called(
        "train", "--run=PPO", "--env=CartPole-v1", "--config", json.dumps(CONFIG), "--stop", STOP, "--local-dir",
        tmp_path, "--seed", 5,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("PPO_CartPole-v1_") and lines[1].split() == [
        "iteration", "steps", "return", "episodes", "steps/s", "seconds",
    ]  # fmt: skip
    assert [line.split()[:2] for line in lines[2:4]] == [["1", "32"], ["2", "64"]]
    assert shown(result, "ended") == "training_iteration is 2, and 2 was asked for"
    assert Path(shown(result, "results")).parent == tmp_path / "default"
    checkpoint = shown(result, "checkpoint")
    assert checkpoint.endswith("checkpoint_000002") and os.path.isdir(checkpoint)
    assert shown(result, "evaluate") == f"rllib evaluate {checkpoint}"
    parameters = json.loads((Path(shown(result, "results")) / "params.json").read_text())
    assert (parameters["seed"], parameters["train_batch_size"]) == (5, 32)


@pytest.mark.parametrize("spelling", [("train", "-f"), ("train", "file")])
def test_all_experiments_of_a_file_are_run(tmp_path: Path, spelling: tuple[str, ...]) -> None:
    file = tmp_path / "two.yaml"
    one = {"run": "PPO", "env": "CartPole-v1", "config": CONFIG}
    file.write_text(json.dumps({"one": one, "two": one}), encoding="utf-8")
    result = called(*spelling, file, "--stop", '{"training_iteration": 1}', "--local-dir", tmp_path / "results")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["one", "two"]
    result = called(*spelling, file, "--experiment-name", "three")
    assert result.exit_code == 2 and "--experiment-name can't name 2 experiments" in result.output


def test_tuned_settings_are_taken_where_no_others_are_given() -> None:
    experiment, note = experiment_for("PPO", "CartPole-v1", None)
    assert experiment.config["num_epochs"] == 20 and experiment.stop["episode_reward_mean"] == 450
    assert experiment.name == "default" and "tuned example ppo-cartpole-v1" in note and "--defaults" in note
    for given, defaults in (({}, False), (None, True)):
        experiment, note = experiment_for("PPO", "CartPole-v1", given, defaults=defaults)
        assert (experiment.config, experiment.stop, note) == ({}, {}, "")
    assert experiment_for("PPO", "Pendulum-v0", None)[0].env == "Pendulum-v0"


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({"is_torch": True}, {"framework": "torch"}),
        ({"framework": "numpy"}, {"framework": "numpy"}),
        ({"eager": True, "trace": True}, {"eager": True, "eager_tracing": True}),
        ({"verbosity": 1}, {"log_level": "INFO"}),
        ({"verbosity": 2, "seed": 0}, {"log_level": "DEBUG", "seed": 0}),
    ],
)
def test_flags_become_settings(options: dict[str, Any], config: dict[str, Any]) -> None:
    assert with_options(Experiment("mine", "PPO"), options).config == config


def test_flags_change_the_experiment() -> None:
    options = {"stop": {"a": 1}, "checkpoint_freq": 3, "checkpoint_at_end": False, "local_dir": "/tmp/x",
               "experiment_name": "b", "num_samples": 2, "restore": "c", "keep_checkpoints_num": None}  # fmt: skip
    found = with_options(Experiment("mine", "PPO", keep_checkpoints_num=7), options)
    expected = Experiment("b", "PPO", None, {}, {"a": 1}, 3, False, 7, None, 2, "/tmp/x", "c")
    assert found == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--run", "PPOO", "--env", "CartPole-v1"), 1, "there is no algorithm 'PPOO'; did you mean 'PPO'"),
        (
            ("--run", "PPO", "--env", "CartPol-v1"),
            1,
            "'CartPol-v1'. Did you mean 'CartPole-v1'",
        ),
        (("--run", "PPO"), 2, "say which environment: --env CartPole-v1"),
        (("--env", "CartPole-v1"), 2, "say which algorithm: --run PPO"),
        (("--run", "PPO", "--env", "x", "--config", '{"lr": 1,}'), 2, "at character 10, after '{\"lr\": 1,'"),
        (("--run", "PPO", "--env", "x", "--config", "[1]"), 2, "this is [1], but must be a JSON object"),
        (("--run", "PPO", "--env", "CartPole-v1", "--config", '{"lrr": 1}'), 1, "no setting 'lrr'; did you mean 'lr'"),
        (("--run", "PPO", "--env", "CartPole-v1", "--scheduler", "pbt"), 2, "only Tune acts on --scheduler"),
        (("--run", "PPO", "--env", "CartPole-v1", "--queue-trials"), 2, "only Tune acts on --queue-trials"),
        (("-f", "none.yaml"), 1, "there is no file none.yaml"),
        (("-f", "none.yaml", "--env", "x"), 2, "leave --run, --env, --config out"),
        (("--run", "PPO", "--env", "CartPole-v1", "--restore", "/nowhere"), 1, "there is no checkpoint /nowhere"),
        (("fil", "x.yaml"), 2, "did you mean 'file'"),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    result = called("train", *arguments)
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_a_missing_torch_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("kernel_rllib.nn.torch")]:
        monkeypatch.delitem(sys.modules, name)
    result = called("train", "--run", "PPO", "--env", "CartPole-v1", "--torch", "--local-dir", tmp_path)
    assert result.exit_code == 1 and "torch" in result.output and "pip install" in result.output


def test_environments_are_found_in_the_directory_that_it_is_called_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from gymnasium.envs.classic_control import CartPoleEnv\n\n\nclass Mine(CartPoleEnv):\n    pass\n"
    (tmp_path / "envs_found_here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = json.dumps({**CONFIG, "horizon": 10})
    given = ("--env=envs_found_here.Mine", "--config", config, "--stop", STOP, "--local-dir", tmp_path)
    result = called("train", "--run=PPO", *given)
    assert result.exit_code == 0 and "training_iteration is 2" in shown(result, "ended"), result.output


def test_ctrl_c_ends_after_the_iteration_with_a_checkpoint(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "kernel_rllib.cli.main", "train", "--run", "PPO", "--env", "CartPole-v1", "--config",
        json.dumps(CONFIG), "--local-dir", str(tmp_path),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        after = process.stdout.read()
    assert process.returncode == 130, before
    (line,) = (line for line in after.splitlines() if line.startswith("checkpoint:"))
    assert os.path.isdir(line.partition(":")[2].strip())
    assert "ended:      interrupted; the same command with --resume goes on" in after


def test_the_picture_has_the_curve_and_the_rates_of_phases() -> None:
    stream = io.StringIO()
    picture = Picture(stream, width=100)
    run = Run("PPO", name="PPO_mine")
    picture.began(run)
    for number in range(1, 4):
        picture.reported(run, {
            "training_iteration": number, "timesteps_total": 1000 * number, "episode_reward_mean": 10.0 * number,
            "episode_reward_min": 1.0, "episode_reward_max": 55.0, "episode_len_mean": 20.0, "episodes_total": 7,
            "env_runners": {"num_env_steps_sampled": 1000}, "time_this_iter_s": 2.0, "time_total_s": 2.0 * number,
            "timers": {"sample_time_ms": 500.0, "learn_time_ms": 1000.0},
        })  # fmt: skip
    picture.say("a line")
    picture.close()
    text = stream.getvalue()
    last = text[text.rindex("PPO_mine") :]
    for part in ("30.0", "▁▅█", "1.0 to 55.0", "3,000 steps, 7 episodes of 20.0 steps, iteration 3, 00:00:06",
                 "2,000 steps/s", "1,000 steps/s", "500 steps/s", "25%", "50%"):  # fmt: skip
        assert part in last, part
    assert "waiting" in last and "a line" in text


def test_a_result_without_episodes_is_a_line_too() -> None:
    stream = io.StringIO()
    Lines(stream).reported(Run("PPO"), {"training_iteration": 1, "episode_reward_mean": float("nan")})
    assert stream.getvalue().split() == ["1", "0", "-", "0", "0", "0.0"]
    assert isinstance(display_for(stream), Lines)


def test_settings_of_a_run_are_all_known() -> None:
    assert training.settings_of("PPO", {"lambda": 0.5}, "CartPole-v1").lambda_ == 0.5
    assert issubclass(MissingDependencyError, ImportError)
