"""ParameterNoise: one perturbation an episode and lane, of a size that follows its target, the same bits anywhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.r2d2 import R2D2Config
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.action_noise import RandomActions
from kernel_rllib.exploration.epsilon_greedy import EpsilonGreedy, PerWorkerEpsilonGreedy
from kernel_rllib.exploration.parameter_noise import ParameterNoise, ParameterNoiseOfActions, ParameterNoiseOfValues
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.training import weights_after

NN = NumpyOps()


def made(config: Any = DQNConfig, generation: Any = "current", **settings: Any) -> Any:
    """Return a small algorithm with four lanes in all, which perturbs parameters."""
    given = {
        "env": "CartPole-v1" if config in (DQNConfig, R2D2Config) else "Pendulum-v1",
        "seed": 3,
        "num_envs": 4,
        "num_env_runners": 0,
        "num_cpus_per_env_runner": 0,
        "min_time_s_per_iteration": 0,
        "min_sample_timesteps_per_iteration": 64,
        "rollout_fragment_length": 8,
        "train_batch_size": 8,
        "num_steps_sampled_before_learning_starts": 32,
        "store_buffer_in_checkpoints": True,
        "batch_mode": "complete_episodes",
        "exploration_config": {"type": "ParameterNoise", "initial_stddev": 0.1, "random_timesteps": 16},
    }
    if config is DQNConfig:
        given["model"] = {"fcnet_hiddens": [8]}
    if config is DDPGConfig:
        given |= {"actor_hiddens": [8], "critic_hiddens": [8], "horizon": 20}
    return config.from_dict({**given, **settings}, generation=generation).build()


def test_values_are_apart_by_the_divergence_of_their_softmax() -> None:
    exploration = ParameterNoiseOfValues(EpsilonGreedy(0.1), 1.0, 3)
    usual, other = np.array([[1.0, 2.0, 0.5], [0.0, -np.inf, 1.0]]), np.array([[1.5, 1.0, 0.5], [1.0, -np.inf, 1.0]])
    found = exploration.apart(NN, {"q_values": usual}, {"q_values": other})
    for row in range(2):
        p, q = (np.exp(values[row]) / np.exp(values[row]).sum() for values in (usual, other))
        assert found[row] == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a))


def test_the_deviation_grows_where_choices_are_nearer_than_those_of_epsilon_greedy() -> None:
    exploration = ParameterNoiseOfValues(EpsilonGreedy(0.1), 1.0, 2)
    target = -math.log(1 - 0.1 + 0.1 / 2)
    found = exploration.adapted(np.array([1.0, 1.0]), np.array([target - 1e-6, target + 1e-6]), 0)
    assert found.tolist() == [1.01, 1 / 1.01]


def test_actions_are_apart_by_the_root_of_their_mean_square() -> None:
    exploration = ParameterNoiseOfActions(EpsilonGreedy(0.1), 1.0, Deterministic(2), 0.2)
    usual, other = np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([[0.2, 0.19], [0.2, 0.21]])
    apart = exploration.apart(NN, {"action_dist_inputs": usual}, {"action_dist_inputs": other})
    assert exploration.is_near(apart, 0).tolist() == [True, False]


@pytest.mark.parametrize("config", [DQNConfig, DDPGConfig])
def test_a_lane_acts_by_its_own_perturbed_parameters_for_an_episode(config: Any) -> None:
    algorithm = made(config)
    sampler = algorithm.runners.local.sampler
    lanes = sampler._perturbed
    seen, perturbed = [], []
    outputs = lanes.outputs

    def watched(forward: Any, own: Any, inputs: Any, made: Any) -> Any:
        found = outputs(forward, own, inputs, made)
        seen.append(lanes._vectors - own[0])
        name = "q_values" if config is DQNConfig else "action_dist_inputs"
        expected = forward(NN, algorithm.learner.module.table.views(lanes._vectors[2]), inputs)[name][2]
        perturbed.append(np.allclose(found[name][2], expected, atol=1e-5))
        return found

    lanes.outputs = watched
    sampler.sample(30)
    assert all(perturbed)
    noise = np.stack(seen)
    np.testing.assert_array_equal(noise[0], noise[1])
    assert noise[0].std(axis=1) == pytest.approx(np.full(4, 0.1), rel=0.3)
    assert abs(np.corrcoef(noise[0])[0, 1:]).max() < 0.5
    ends = sampler.episodes.take()
    if ends:
        assert (noise[0] != noise[-1]).any()


def test_the_deviation_is_that_of_whole_episodes_only() -> None:
    algorithm = made(exploration_config={"type": "ParameterNoise", "initial_stddev": 0.5})
    algorithm.train()
    lanes = algorithm.runners.local.sampler._perturbed
    episodes = algorithm.episodes.total
    powers = np.log(lanes.stddev / 0.5) / math.log(1.01)
    np.testing.assert_allclose(powers, powers.round(), atol=1e-6)
    assert abs(powers).sum() <= episodes and abs(powers).max() >= 1


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("config", [DQNConfig, DDPGConfig])
def test_any_number_of_runners_ends_with_the_same_bits(config: Any) -> None:
    alone, many = made(config), made(config, num_env_runners=2)
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@pytest.mark.parametrize("settings", [{}, {"batch_mode": "truncate_episodes", "generation": "0.8.5"}])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(settings: dict[str, Any], tmp_path: Path) -> None:
    straight = made(**settings)
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected = weights_after(2, straight)
    resumed = made(**settings)
    resumed.restore(path)
    assert weights_after(2, resumed) == expected


def test_what_is_inside_is_random_at_first_and_then_rarely() -> None:
    values = made(exploration_config={"type": "ParameterNoise"}).make_exploration()
    assert [values.info(step)["cur_epsilon"] for step in (0, 10_000, 10_001, 10**6)] == [1.0, 1.0, 0.01, 0.01]
    actions = made(DDPGConfig, exploration_config={"type": "ParameterNoise", "random_timesteps": 5}).make_exploration()
    assert isinstance(actions, ParameterNoiseOfActions) and isinstance(actions.then, RandomActions)
    inside = {"type": "PerWorkerEpsilonGreedy"}
    each = made(exploration_config={"type": "ParameterNoise", "sub_exploration": inside}).make_exploration()
    assert isinstance(each, ParameterNoise) and isinstance(each.then, PerWorkerEpsilonGreedy)
    assert each.of_runner(1, 2).info(0) != each.of_runner(2, 2).info(0)


def test_nothing_is_perturbed_without_exploration() -> None:
    algorithm = made(explore=False)
    assert algorithm.runners.local.sampler._perturbed is None


@pytest.mark.parametrize(("config", "settings", "message"), [
    (DQNConfig, {"exploration_config": {"type": "ParameterNoise", "stddev": 1}},
     "has 'stddev', which ParameterNoise does not take; did you mean 'initial_stddev'"),
    (DDPGConfig, {"exploration_config": {"type": "ParameterNoise", "initial_stddev": 0}},
     "has initial_stddev=0.0, but must be above 0: it adapts from there"),
    (DQNConfig, {"exploration_config": {"type": "ParameterNoise", "sub_exploration": {"type": "SoftQ"}}},
     "the sub_exploration {'type': 'SoftQ'}, by which it can't tell how far choices should move"),
    (SACConfig, {}, "the type 'ParameterNoise', which a policy that learns from replay can't explore by"),
    (R2D2Config, {}, "the type 'ParameterNoise', which does not explore discrete actions by their values"),
    (DQNConfig, {"env": make_multi_agent("CartPole-v1"), "num_envs": 1},
     "'default_policy' explores by ParameterNoise, which perturbs parameters for the episodes of an environment with"),
])  # fmt: skip
def test_what_can_not_be_is_refused(config: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(config, **settings)
