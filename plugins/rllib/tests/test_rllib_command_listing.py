"""`rllib example`, `algorithms`, `envs` and `explain`, and that the kernel has the commands too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from kernel_rllib.cli import examples
from kernel_rllib.cli.main import rllib
from kernel_rllib.cli.parameters import complete_algorithm, complete_env, complete_example
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.experiments.checking import Check, judged
from kernel_rllib.experiments.experiment import Experiment, Passing
from kernel_rllib.experiments.tuned import tuned_names
from kernel_rllib.plugin import kernel_cli_commands
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class


def called(*arguments: Any) -> Result:
    """Return what a command line did."""
    return CliRunner().invoke(rllib, [str(argument) for argument in arguments])


def test_the_kernel_has_the_commands_too() -> None:
    assert [command.name for command in kernel_cli_commands()] == ["rllib"]


def test_examples_are_listed_shown_and_run(tmp_path: Path) -> None:
    listed = called("example", "list")
    assert listed.exit_code == 0 and all(name in listed.output for name in tuned_names())
    listed = called("example", "list", "--filter", "td3-*")
    assert "td3-pendulum-v1" in listed.output and "ppo" not in listed.output
    assert yaml.safe_load(called("example", "get", "ppo-cartpole-v1").output)["ppo-cartpole-v1"]["run"] == "PPO"
    run = called("example", "run", "ppo-cartpole-v1", "--stop", '{"timesteps_total": 1}', "--local-dir", tmp_path)
    assert run.exit_code == 0 and "timesteps_total is 1,024, and 1 was asked for" in run.output, run.output
    assert (tmp_path / "ppo-cartpole-v1").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "ppo-cartpol-v1"), "there is no example 'ppo-cartpol-v1'; did you mean 'ppo-cartpole-v1'"),
        (("list", "-f", "nothing"), "no example has 'nothing' in its name"),
        (("check",), "name the examples to check, or say --all"),
        (("check", "x", "--all"), "name the examples to check, or say --all"),
    ],
)
def test_what_is_wrong_with_an_example_is_told(arguments: tuple[str, ...], message: str) -> None:
    result = called("example", *arguments)
    assert result.exit_code == 1 and message in result.output


def test_a_check_judges_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def checked(experiment: Experiment, seed: int) -> Check:
        seeds.append(seed)
        return Check(seed, 480.0 if seed != 3 else 100.0, 50_000, 1.0)

    monkeypatch.setattr(examples, "checked", checked)
    result = called("example", "check", "dqn-cartpole-v1")
    assert result.exit_code == 0 and "pass  dqn-cartpole-v1: 4 of 5 seeds reach 475" in result.output
    assert seeds == [0, 1, 2, 3, 4]
    result = called("example", "check", "dqn-cartpole-v1", "--first", 2, "--seeds", 2)
    assert result.exit_code == 1 and "FAIL  dqn-cartpole-v1: 1 of 2" in result.output
    assert "not reached: dqn-cartpole-v1" in result.output


def test_enough_seeds_are_a_share_of_those_that_were_tried() -> None:
    experiment = Experiment("mine", "PPO", passing=Passing(10, 100, seeds=5, needed=4))
    checks = [Check(seed, value, 100, 1.0) for seed, value in enumerate((10.0, 12.0, 9.9))]
    assert judged(experiment, checks)[0] is False and judged(experiment, checks[:2])[0] is True


def test_algorithms_are_listed_with_papers_and_actions() -> None:
    lines = {line.split("|")[1].strip(): line for line in called("algorithms").output.splitlines() if "|" in line}
    assert set(ALGORITHMS) <= set(lines)
    assert "1707.06347" in lines["PPO"] and "discrete, continuous" in lines["PPO"] and "ppo.py" in lines["PPO"]
    assert "continuous" in lines["TD3"] and "discrete" not in lines["TD3"]
    assert "discrete" in lines["DQN"] and "continuous" not in lines["DQN"]


@pytest.mark.parametrize("name", ["DDPG", "DQN", "PPO", "SAC", "SimpleQ"])
def test_algorithms_take_the_actions_that_the_list_says(name: str) -> None:
    config_class = algorithm_class(name).config_class
    for kind, env in (("discrete", "CartPole-v1"), ("continuous", "Pendulum-v1")):
        settings: dict[str, Any] = {"env": env, "num_env_runners": 0}
        if "replay_buffer_config" in config_class.fields:
            settings["replay_buffer_config"] = {"capacity": 100}
        config = config_class.from_dict(settings)
        if kind in algorithm_class(name).action_kinds:
            config.build().stop()
        else:
            with pytest.raises((ConfigError, SpaceError), match="action"):
                config.build()


def test_environments_are_listed() -> None:
    result = called("envs")
    assert "kernel_rllib.envs.games.catch.Catch" in result.output and "names of gymnasium" in result.output
    assert "MountainCarContinuous-v0" not in result.output
    assert "MountainCarContinuous-v0" in called("envs", "--all").output


def test_settings_are_explained() -> None:
    result = called("explain", "--run", "PPO", "--env", "CartPole-v1")
    assert "tuned example ppo-cartpole-v1" in result.output and "env steps an iteration  1,024" in result.output
    result = called("explain", "--run", "PPO", "--env", "CartPole-v1", "--config", json.dumps({"lr": 0.25}))
    assert "0.25" in result.output and "tuned" not in result.output
    result = called("explain", "--run", "PPO", "--config", json.dumps({"lrr": 0.25}))
    assert result.exit_code == 1 and "no setting 'lrr'; did you mean 'lr'" in result.output


def test_shells_complete_names() -> None:
    context: Any = None
    assert complete_algorithm(context, context, "p")[-1] == "PPO"
    assert "CartPole-v1" in complete_env(context, context, "CartP")
    assert complete_example(context, context, "td3") == ["td3-pendulum-v1"]
