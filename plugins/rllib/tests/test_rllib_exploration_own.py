"""Explorations by configuration: classes of the user's own, noise of each runner, and the names that there are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.exploration_by_noise import exploration_of_policy
from kernel_rllib.algorithms.off_policy import exploration_by_values
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.action_noise import GaussianNoise, RandomActions
from kernel_rllib.exploration.epsilon_greedy import EpsilonGreedy, per_worker_epsilon
from kernel_rllib.exploration.exploration import PerRunner, StochasticSampling
from kernel_rllib.nn.numpy_ops import NumpyOps

NN = NumpyOps()
BOUNDS = np.array([-1.0, -2.0], np.float32), np.array([1.0, 2.0], np.float32)
DETERMINISTIC = Deterministic(2, Bounds((-1.0, -2.0), (1.0, 2.0)))


class LeastValued:
    """Takes the action that looks worst: an exploration from nothing."""

    noise = Noise("uniform", 0)
    keeps: tuple[str, ...] = ()

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset

    def choose(self, nn: Any, outputs: Mapping[str, Any], noise: Any, timestep: int) -> Any:
        """Return the worst."""
        return outputs["q_values"].argmin(axis=1)

    def best(self, nn: Any, outputs: Mapping[str, Any]) -> Any:
        """Return the best."""
        return outputs["q_values"].argmax(axis=1)

    def recorded(self, nn: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing."""
        return {}


class OftenRandom(EpsilonGreedy):
    """One of ours with something changed."""


class Modes(StochasticSampling):
    """Draws nothing, and asks for the distribution."""

    def choose(self, nn: Any, outputs: Mapping[str, Any], noise: Any, timestep: int) -> Any:
        """Return the mode."""
        return self.best(nn, outputs)


class NoExplorationAtAll:
    """Lacks everything."""


def small(config: Any, env: str, **exploration: Any) -> Any:
    """Return settings of short training."""
    made = config().environment(env).debugging(seed=1).exploration(exploration_config=exploration)
    made.env_runners(num_env_runners=0, rollout_fragment_length=8)
    if config is PPOConfig:
        return made.training(train_batch_size=16, minibatch_size=8, num_epochs=1, model={"fcnet_hiddens": [4]})
    made.training(train_batch_size=8, num_steps_sampled_before_learning_starts=8, model={"fcnet_hiddens": [4]})
    return made.reporting(min_sample_timesteps_per_iteration=16, min_time_s_per_iteration=0)


@pytest.mark.parametrize("kind", [LeastValued, f"{__name__}.LeastValued"])
def test_a_class_of_ones_own_chooses(kind: Any) -> None:
    algorithm = small(DQNConfig, "CartPole-v1", type=kind, offset=3.0).build()
    algorithm.train()
    exploration = algorithm.make_exploration()
    assert (type(exploration).__name__, exploration.offset) == ("LeastValued", 3.0)
    fragment = algorithm.sample()
    values = algorithm.learner.evaluate(
        lambda nn, parameters: algorithm.learner.module.explore(nn, parameters, {"obs": fragment.columns["obs"][:, 0]})
    )["q_values"]
    np.testing.assert_array_equal(fragment.columns["actions"][:, 0], values.argmin(axis=1))


def test_a_subclass_of_ours_takes_what_ours_takes() -> None:
    exploration = exploration_by_values({"type": OftenRandom, "epsilon": 1.0}, 2)
    assert isinstance(exploration, OftenRandom)
    values = {"q_values": np.tile(np.array([[0.0, 1.0]]), (4, 1))}
    noise = np.array([[0.5, 0.2], [0.5, 0.8], [0.0, 0.3], [0.9, 0.7]], np.float32)
    assert exploration.choose(NN, values, noise, 0).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("config", "env"), [(PPOConfig, "CartPole-v1"), (SACConfig, "Pendulum-v1")])
def test_a_class_that_asks_for_the_distribution_gets_it(config: Any, env: str) -> None:
    algorithm = small(config, env, type=Modes).build()
    algorithm.train()
    assert isinstance(algorithm.make_exploration(), Modes)


@pytest.mark.parametrize("build", [
    lambda settings: exploration_by_values(settings, 2),
    lambda settings: exploration_of_policy(settings, DETERMINISTIC, BOUNDS),
    lambda settings: small(PPOConfig, "CartPole-v1", **settings).build(),
], ids=["values", "policy", "draws"])  # fmt: skip
@pytest.mark.parametrize(("settings", "message"), [
    ({"type": NoExplorationAtAll},
     "the type NoExplorationAtAll, which lacks choose, best, recorded, noise, keeps: an exploration needs all that"),
    ({"type": LeastValued, "ofset": 1.0},
     r"the type LeastValued, which can't be made with the options \{'ofset': 1.0\} and with nothing else: "
     r".*unexpected keyword argument 'ofset'"),
    ({"type": "no.such.Exploration"}, r"'no.such.Exploration', which can't be imported \(No module named 'no'\)"),
    ({"type": f"{__name__}.Missing"}, "can't be imported .*has no attribute 'Missing'"),
    ({"type": f"{__name__}.small"}, "small', which is no class but function"),
    *[({"type": name}, f"has the type '{name}'") for name in (
        "ParameterNoise", "RE3", "ThompsonSampling", "UpperConfidenceBound", "ray.rllib.x.RE3",
    )],
])  # fmt: skip
def test_what_is_no_exploration_is_refused_by_its_name(build: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("ray.rllib.x.", "")):
        build(settings)


@pytest.mark.parametrize("name", ["EpsilonGreedy", "SoftQ", "Random", "GaussianNoise", "PerWorkerEpsilonGreedy"])
def test_what_learns_from_draws_refuses_other_explorations(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the type '{name}', and this algorithm learns from how probable"):
        small(PPOConfig, "CartPole-v1", type=name).build()


def test_what_learns_from_draws_refuses_options_of_draws() -> None:
    with pytest.raises(ConfigError, match="has random_timesteps, which StochasticSampling does not take here"):
        small(PPOConfig, "CartPole-v1", type="StochasticSampling", random_timesteps=10).build()
    assert small(PPOConfig, "CartPole-v1", type="StochasticSampling", random_timesteps=0).build()


@pytest.mark.parametrize("name", ["GaussianNoise", "OrnsteinUhlenbeckNoise"])
@pytest.mark.parametrize("random_timesteps", [0, 10])
def test_noise_of_each_runner_has_a_size_of_its_own(name: str, random_timesteps: int) -> None:
    settings = {"random_timesteps": random_timesteps, "initial_scale": 1.0, "final_scale": 1.0}
    same = exploration_of_policy({"type": name, **settings}, DETERMINISTIC, BOUNDS)
    each = exploration_of_policy({"type": f"PerWorker{name}", **settings}, DETERMINISTIC, BOUNDS)
    outputs = {"action_dist_inputs": np.zeros((3, 2), np.float32)}
    noise = np.full((3, 2), 0.1, np.float32)
    expected = same.choose(NN, outputs, noise, 20)
    assert isinstance(each, PerRunner)
    np.testing.assert_array_equal(each.of_runner(0, 3).choose(NN, outputs, noise, 20), expected)
    for index in (1, 2, 3):
        found = each.of_runner(index, 3).choose(NN, outputs, noise, 20)
        np.testing.assert_allclose(found, expected * per_worker_epsilon(index, 3), rtol=1e-6)
    np.testing.assert_array_equal(each.choose(NN, outputs, noise, 20), expected)  # the others are copies


def test_random_actions_are_alike_in_all_runners() -> None:
    settings = {"type": "PerWorkerGaussianNoise", "random_timesteps": 10}
    exploration = exploration_of_policy(settings, DETERMINISTIC, BOUNDS)
    assert isinstance(exploration, RandomActions)
    outputs, noise = {"action_dist_inputs": np.zeros((1, 2), np.float32)}, np.full((1, 2), 0.3, np.float32)
    found = [exploration.of_runner(index, 3).choose(NN, outputs, noise, 9) for index in (0, 1, 3)]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_our_classes_are_known_by_their_names() -> None:
    made = exploration_of_policy({"type": GaussianNoise, "stddev": 0.2}, DETERMINISTIC, BOUNDS)
    assert isinstance(made, RandomActions)
    assert type(exploration_by_values({"type": EpsilonGreedy, "epsilon": 0.5}, 2)) is EpsilonGreedy
