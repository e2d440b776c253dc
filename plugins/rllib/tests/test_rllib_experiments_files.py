"""Files of experiments: what they may say, what is refused, and that those that ship can be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.checking import checked
from kernel_rllib.experiments.experiment import Experiment, Passing, experiment_of
from kernel_rllib.experiments.files import read_experiments
from kernel_rllib.experiments.tuned import tuned_experiment, tuned_file, tuned_for, tuned_names
from kernel_rllib.training.registry import algorithm_class


def written(directory: Path, text: str, name: str = "experiments.yaml") -> Path:
    """Return a file with this text."""
    file = directory / name
    file.write_text(text, encoding="utf-8")
    return file


def test_the_experiment_of_the_book_is_read_as_it_stands(tmp_path: Path) -> None:
    text = (
        "pendulum-ppo:\n    env: Pendulum-v1\n    run: PPO\n    checkpoint_freq: 5\n"
        "    stop:\n        episode_reward_mean: -800\n"
        "    config:\n        lambda: 0.1\n        gamma: 0.95\n        lr: 3e-4\n        num_sgd_iter: 6\n"
    )
    (found,) = read_experiments(written(tmp_path, text))
    assert (found.name, found.run, found.env, found.checkpoint_freq) == ("pendulum-ppo", "PPO", "Pendulum-v1", 5)
    assert found.stop == {"episode_reward_mean": -800}
    assert found.config == {"lambda": 0.1, "gamma": 0.95, "lr": 3e-4, "num_sgd_iter": 6}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1E5", 1e5), ("-2.5e-1", -0.25), (".5e1", 5.0), ("1_000", 1000), ("12", 12), ("1e", "1e")],
)
def test_numbers_are_what_people_mean(tmp_path: Path, text: str, value: Any) -> None:
    (found,) = read_experiments(written(tmp_path, f"a: {{run: PPO, config: {{lr: {text}}}}}"))
    assert found.config["lr"] == value and type(found.config["lr"]) is type(value)


def test_a_python_file_has_a_config_or_experiments(tmp_path: Path) -> None:
    config = "from kernel_rllib import PPOConfig\nconfig = PPOConfig().environment('CartPole-v1').training(lr=0.5)\n"
    (found,) = read_experiments(written(tmp_path, config + "stop = {'timesteps_total': 10}", "mine.py"))
    assert (found.name, found.run, found.stop) == ("mine", "PPO", {"timesteps_total": 10})
    assert found.config["lr"] == 0.5 and found.config["env"] == "CartPole-v1"
    (found,) = read_experiments(written(tmp_path, "experiments = {'a': {'run': 'DQN'}}", "other.py"))
    assert (found.name, found.run) == ("a", "DQN")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  - b\n c", r"experiments\.yaml:3: this is not YAML: "),
        ("", r"experiments\.yaml has no experiments: it needs a name for each"),
        ("a: PPO", r"experiment 'a' is 'PPO', but must be a mapping with the keys run, env, config and stop"),
        ("a: {env: CartPole-v1}", r"experiment 'a' says no algorithm: it needs a line such as `run: PPO`"),
        ("a: {run: PPO, stops: {}}", r"experiment 'a' has the key 'stops', which is not known; did you mean 'stop'\?"),
        ("a: {run: PPO, scheduler: pbt}", r"'scheduler', on which only Tune acts; run it by `kernel.tune.run_exp"),
        ("a: {run: PPO, num_samples: two}", r"num_samples is 'two', but must be a whole number"),
        ("a: {run: PPO, num_samples: true}", r"num_samples is True, but must be a whole number"),
        ("a: {run: PPO, pass: {return: 1}}", r"pass is {'return': 1}, but must be a mapping with return, steps"),
        ("a: {run: PPO, config: 5}", r"config is 5, but must be a mapping"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_experiments(written(tmp_path, text))


def test_what_is_wrong_with_a_python_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mine\.py fails: ZeroDivisionError: division by zero"):
        read_experiments(written(tmp_path, "1 / 0", "mine.py"))
    with pytest.raises(ConfigError, match=r"mine\.py has no `config` that is one of an algorithm"):
        read_experiments(written(tmp_path, "config = {}", "mine.py"))
    with pytest.raises(ConfigError, match=r"there is no file .*none\.yaml: give a YAML or Python file"):
        read_experiments(tmp_path / "none.yaml")


def test_a_pass_says_what_has_to_be_reached() -> None:
    found = experiment_of("a", {"run": "PPO", "pass": {"return": 475, "steps": 1000, "seeds": 3, "needed": 2}})
    assert found.passing == Passing(475, 1000, 3, 2)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("name", tuned_names())
def test_what_ships_can_be_built(name: str) -> None:
    experiment = tuned_experiment(name)
    assert experiment.name == name and experiment.passing is not None
    assert {"episode_reward_mean", "timesteps_total"} == experiment.stop.keys()
    config = algorithm_class(experiment.run).config_class.from_dict({**experiment.config, "env": experiment.env})
    config.validate()
    algorithm = config.build()
    algorithm.stop()


def test_a_pair_finds_its_file_also_under_an_older_name() -> None:
    def name(algorithm: str, env: object) -> str | None:
        found = tuned_for(algorithm, env)
        return found.name if found else None

    assert name("PPO", "CartPole-v1") == "ppo-cartpole-v1"
    assert name("SAC", "Pendulum-v0") == "sac-pendulum-v1"
    assert name("PPO", "NoSuch-v0") is None and name("PPO", None) is None and name("PPO", "../x") is None


def test_names_are_listed_by_a_part_or_a_pattern_and_a_wrong_one_is_told() -> None:
    assert set(tuned_names("pendulum")) >= {"ddpg-pendulum-v1", "sac-pendulum-v1", "td3-pendulum-v1"}
    assert all(name.startswith("ppo-") for name in tuned_names("ppo-*")) and tuned_names("none") == []
    with pytest.raises(ConfigError, match="there is no example 'ppo-cartpol-v1'; did you mean 'ppo-cartpole-v1'"):
        tuned_file("ppo-cartpol-v1")


def test_a_check_plays_its_episodes_in_the_environment_that_evaluation_config_says() -> None:
    experiment = Experiment(
        "short", "RandomAgent", CartPole, {"evaluation_config": {"env_config": {"max_episode_steps": 3}}},
        passing=Passing(3.0, steps=10),
    )  # fmt: skip
    assert checked(experiment, 0).mean_return == 3.0
    usual = Experiment("usual", "RandomAgent", CartPole, passing=Passing(3.0, steps=10))
    assert checked(usual, 0).mean_return > 10
