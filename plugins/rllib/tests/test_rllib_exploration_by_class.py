"""Explorations of older programs, which are given distributions; and those of policies, asked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.errors import ConfigError, RLlibError
from kernel_rllib.first_generation.exploration import Exploration
from kernel_rllib.training.exploration_by_class import LaneDraws


class Sampled(Exploration):
    """Draws as StochasticSampling does, in the way of 0.8.5, and knows where it is."""

    def __init__(self, action_space: Any, *, least: int = 0, **further: Any) -> None:
        super().__init__(action_space, **further)
        self.least, self.asked = least, 0

    def get_exploration_action(
        self, distribution_inputs: Any, action_dist_class: Any, model: Any = None, explore: bool = True,
        timestep: Any = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Return a draw."""
        self.asked += 1
        distribution = action_dist_class(distribution_inputs, model)
        actions = distribution.sample() if explore else distribution.deterministic_sample()
        return actions, distribution.logp(actions)

    def get_state(self) -> dict[str, Any]:
        """Return what is said of it."""
        return {"least": self.least}


class Shifted(Sampled):
    """Explores in the way of 2.x: the best action, or the other one, in turn by the steps of the run."""

    def before_compute_actions(self, *, timestep: int | None = None, **_: Any) -> None:
        """Keep the time."""
        self.time = timestep

    def get_exploration_action(  # type: ignore[override]
        self, *, action_distribution: Any, timestep: Any, explore: bool = True
    ) -> tuple[Any, Any]:
        """Return the other action than the best one."""
        assert timestep == self.time
        best = action_distribution.deterministic_sample()
        return (1 - best if explore else best), np.full(len(best), -0.5)


class Wrong(Sampled):
    """Returns what its `way` says."""

    def __init__(self, way: str, **further: Any) -> None:
        super().__init__(**further)
        self.way = way

    def get_exploration_action(self, distribution_inputs: Any, action_dist_class: Any, **_: Any) -> Any:  # type: ignore[override]
        """Return it."""
        drawn = action_dist_class(distribution_inputs)
        return {"alone": np.zeros(1), "shape": (np.zeros((1, 7)), None), "draw": (drawn.sample(), None)}[self.way]


class Hooked(Sampled):
    """Has a method that nothing calls."""

    def on_episode_start(self, *_: Any, **__: Any) -> None:
        """Hear of an episode."""


def small(config: Any = PPOConfig, env: str = "CartPole-v1", **exploration: Any) -> Any:
    """Return settings of short training."""
    made = config().environment(env).debugging(seed=1)
    made.env_runners(num_env_runners=0, num_envs=2, rollout_fragment_length=8, num_cpus_per_env_runner=0)
    if exploration:
        made.exploration(exploration_config=exploration)
    if config is PPOConfig:
        return made.training(train_batch_size=16, minibatch_size=8, num_epochs=1, model={"fcnet_hiddens": [4]})
    narrow: dict[str, Any] = {"model": {"fcnet_hiddens": [4]}} if config is DQNConfig else {"actor_hiddens": [4]}
    made.training(train_batch_size=8, num_steps_sampled_before_learning_starts=8, **narrow)
    return made.reporting(min_sample_timesteps_per_iteration=16, min_time_s_per_iteration=0)


def weights_of(settings: Any) -> bytes:
    """Return the parameters after an iteration."""
    algorithm = settings.build()
    algorithm.train()
    algorithm.stop()
    return bytes(algorithm.learner.weights.tobytes())


def test_draws_of_ones_own_are_those_of_ours() -> None:
    assert weights_of(small(type=Sampled)) == weights_of(small(type="StochasticSampling"))


@pytest.mark.usefixtures("session")
def test_any_number_of_runners_draws_the_same() -> None:
    assert weights_of(small(type=Sampled).env_runners(num_env_runners=2)) == weights_of(small(type=Sampled))


def test_an_exploration_of_today_is_given_the_distribution() -> None:
    algorithm = small(type=f"{__name__}.Shifted", least=3).build()
    fragment = algorithm.sample()
    best = algorithm.learner.evaluate(
        lambda nn, parameters: algorithm.learner.module.infer(nn, parameters, {"obs": fragment.columns["obs"][:, 0]})
    )["action_dist_inputs"].argmax(axis=1)
    np.testing.assert_array_equal(fragment.columns["actions"][:, 0], 1 - best)
    np.testing.assert_array_equal(fragment.columns["action_logp"], -0.5)  # as it said
    assert algorithm.get_policy().get_exploration_info()["least"] == 3
    algorithm.train()
    obs = np.array([0.1, 0.2, 0.1, 0.2], np.float32)
    assert algorithm.compute_single_action(obs, explore=True) == 1 - algorithm.compute_single_action(obs, explore=False)


@pytest.mark.parametrize(("config", "env"), [(DQNConfig, "CartPole-v1"), (DDPGConfig, "Pendulum-v1")])
def test_values_and_deterministic_policies_are_explored_too(config: Any, env: str) -> None:
    algorithm = small(config, env, type=Sampled).build()
    algorithm.train()
    assert algorithm.get_policy()._inference.exploration.made().asked == 0  # runners have theirs


class Told(Sampled):
    """Says what it was told, as an action."""

    def get_exploration_action(self, distribution_inputs: Any, **_: Any) -> Any:  # type: ignore[override]
        """Return the number of the runner for all rows."""
        assert (self.framework, self.num_workers, self.policy_config["lr"]) == ("numpy", 2, 5e-5)
        return np.full(len(distribution_inputs), self.worker_index - 1), np.zeros(len(distribution_inputs))


@pytest.mark.usefixtures("session")
def test_each_runner_makes_one_and_tells_it_where_it_is() -> None:
    algorithm = small(type=Told).env_runners(num_env_runners=2).build()
    assert algorithm.sample().columns["actions"].tolist() == [[0, 1]] * 8
    algorithm.stop()


def test_further_draws_of_a_step_come_from_the_noise_of_the_lane() -> None:
    noise = np.random.default_rng(0).random((3, 2), np.float32)
    all_rows, one_row = LaneDraws(noise), LaneDraws(noise[1:2])
    for number in range(3):
        found, alone = (
            each.random((len(rows), 2), np.float32) for each, rows in ((all_rows, noise), (one_row, noise[1:]))
        )
        np.testing.assert_array_equal(found[1:2], alone)
        assert (number == 0) == bool(np.array_equal(found, noise))
    assert not np.array_equal(LaneDraws(noise).standard_normal((3, 2), np.float32), all_rows.random((3, 2), np.float32))


@pytest.mark.parametrize(("way", "message"), [
    ("alone", r"Wrong.get_exploration_action\(\) returned ndarray, but must return a pair: the actions, and their"),
    ("shape", r"returned actions of shape \(1, 7\), but 2 rows of inputs need \(2,\), as sample\(\)"),
])  # fmt: skip
def test_what_it_must_not_return_is_said(way: str, message: str) -> None:
    with pytest.raises(RLlibError, match=message):
        small(type=Wrong, way=way).build().train()


def test_drawing_without_exploring_is_an_error() -> None:
    algorithm = small(type=Wrong, way="draw").build()
    with pytest.raises(
        RLlibError, match=r"drew from a distribution with explore=False: return its deterministic_sample"
    ):
        algorithm.compute_single_action(np.zeros(4, np.float32), explore=False)


@pytest.mark.parametrize(("exploration", "message"), [
    ({"type": Hooked}, "the type Hooked, which has on_episode_start, and nothing calls that: leave it out"),
    ({"type": Wrong}, r"Wrong, which can't be made with the options \{\} and with action_space, .*: .*'way'"),
])  # fmt: skip
def test_a_class_that_can_not_be_had_is_refused(exploration: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**exploration).build()


def test_an_exploration_has_to_choose() -> None:
    with pytest.raises(
        RLlibError, match=r"Exploration has no get_exploration_action\(\): an exploration has to define it"
    ):
        Exploration().get_exploration_action()


# -- asked by hand ----------------------------------------------------------------------------------------------------


def test_a_policy_explores_by_hand_as_it_does_in_runners() -> None:
    policy = small().build().get_policy()
    logits = np.tile(np.array([[0.0, 3.0]], np.float32), (400, 1))
    actions, likely = policy.exploration.get_exploration_action(logits, policy.dist_class, policy.model)
    assert 0 < (actions == 0).sum() < 60
    np.testing.assert_allclose(likely, policy.dist_class(logits).logp(actions), rtol=1e-6)
    best, _ = policy.exploration.get_exploration_action(action_distribution=policy.dist_class(logits), explore=False)
    assert best.tolist() == [1] * 400
    with pytest.raises(RLlibError, match="was given nothing to choose by: give distribution_inputs"):
        policy.exploration.get_exploration_action()


def test_steps_are_counted_where_they_are_not_given() -> None:
    schedule = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.0, "epsilon_timesteps": 100}
    policy = small(DQNConfig, **schedule).build().get_policy()
    values = np.tile(np.array([[0.0, 3.0]], np.float32), (50, 1))
    first, likely = policy.exploration.get_exploration_action(values, timestep=0)
    assert 0 < first.sum() < 50 and not likely.any()
    policy.exploration.get_exploration_action(values)
    assert policy.exploration.get_state() == {"cur_epsilon": 0.99, "last_timestep": 1}
    last, _ = policy.exploration.get_exploration_action(values, timestep=1000)
    assert last.tolist() == [1] * 50
    policy.exploration.set_state({"last_timestep": 50})
    assert policy.get_exploration_info() == {"cur_epsilon": 0.5, "last_timestep": 50}


def test_noise_of_continuous_actions_too() -> None:
    exploration = {"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 0}
    policy = small(DDPGConfig, "Pendulum-v1", **exploration).build().get_policy()
    inputs = np.zeros((64, 1), np.float32)
    actions, _ = policy.exploration.get_exploration_action(inputs)
    assert len(np.unique(actions)) > 32
    assert policy.get_exploration_info()["cur_scale"] == pytest.approx(1.0, abs=1e-3)
