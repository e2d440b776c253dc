"""TQC: losses and targets as the paper has them, the same bits for any number of runners and after a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.sac import policy_loss
from kernel_rllib.algorithms.tqc import TQC, TQCConfig, mean_quantile, quantile_critics_loss
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.errors import ConfigError, DataError, SpaceError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.quantiles import quantile_midpoints
from kernel_rllib.returns.truncated_quantiles import truncated_mixture
from kernel_rllib.testing.reference import soft_actor_critic
from kernel_rllib.testing.reference import truncated_quantile_critics as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.testing.training import weights_after

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
SQUASHED = for_space(spaces.Box(-1.0, 1.0, (2,)), box="squashed_gaussian")


def config(env: Any = "Pendulum-v1", **env_runners: Any) -> TQCConfig:
    """Return small settings with four lanes in all."""
    small = {"fcnet_hiddens": [16]}
    return (
        TQCConfig()
        .environment(env)
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .training(
            n_quantiles=5,
            n_critics=3,
            top_quantiles_to_drop_per_net=2,
            train_batch_size=32,
            num_steps_sampled_before_learning_starts=16,
            q_model_config=small,
            policy_model_config=small,
            actor_lr=1e-3,
            store_buffer_in_checkpoints=True,
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=40)
        .debugging(seed=3)
    )


def small(dtype: Any, quantiles: int = 4) -> tuple[ActorQCritics, Any, Batch]:
    """Return a module of three critics over two numbers, parameters, and a minibatch for it."""
    hidden = HiddenLayers((5,), "tanh")
    options = ActorQCriticsOptions(hidden, hidden, 3, 0.3, quantiles=quantiles)
    module = ActorQCritics(3, 4, action_inputs=2, options=options)
    generator = np.random.default_rng(2)
    draw = lambda *shape: generator.standard_normal(shape).astype(dtype)
    batch = Batch(
        obs=draw(6, 3), actions=np.tanh(draw(6, 2)), value_targets=2 * draw(6, 7), action_noise=draw(6, 2),
        weights=generator.random(6).astype(dtype),
    )  # fmt: skip
    return module, 0.5 * draw(module.table.size), batch


def in_numpy(module: ActorQCritics, vector: Any, function: Callable[..., Any]) -> Any:
    """Return what a function of operations and parameters gives in float64."""
    return NumpyBackend().evaluate(function, vector, module.table)


def gradients_agree(
    loss: Any, module: ActorQCritics, vector: Any, batch: Batch, expected: Callable[[Any], float], prefix: str
) -> Any:
    """Return what a loss reports; fail unless it, and its gradient, are those of a reference of all parameters."""
    metrics, gradient = NumpyBackend().gradient(
        lambda nn, p: loss(nn, module, p, batch), vector, module.table, trainable=(prefix,)
    )
    exact, tolerance = vector.astype(np.float64), TOLERANCE[vector.dtype.type]
    total = metrics["critic_loss" if "critic_loss" in metrics else "actor_loss"]
    assert total == pytest.approx(expected(exact), rel=tolerance, abs=tolerance)
    (place,) = module.table.mask((prefix,))

    def of_part(part: Any) -> float:
        moved = exact.copy()
        moved[place] = part
        return expected(moved)

    slopes = numerical_gradient(of_part, exact[place], step=1e-5)
    np.testing.assert_allclose(gradient[place], slopes, atol=max(tolerance, 1e-8) * 10)
    assert np.abs(slopes).max() > 0.01 and not np.delete(np.asarray(gradient), np.r_[place]).any()
    return metrics


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("quantiles", [4, 1])
def test_the_loss_of_critics_is_the_reference(dtype: Any, quantiles: int) -> None:
    module, vector, batch = small(dtype, quantiles)
    exact = {name: column.astype(np.float64) for name, column in batch.items()}

    def told(vector: Any) -> Any:
        return in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, exact["obs"], exact["actions"]))

    def expected(vector: Any) -> float:
        return reference.critics_loss(told(vector), exact["value_targets"], exact["weights"])

    metrics = gradients_agree(quantile_critics_loss, module, vector, batch, expected, "critic/")
    found = told(vector.astype(np.float64))
    assert [each.shape for each in found] == [(6, quantiles)] * 3
    means = found[0].mean(axis=1)
    reported = [metrics[name] for name in ("min_q", "mean_q", "max_q")]
    np.testing.assert_allclose(reported, [means.min(), means.mean(), means.max()], atol=1e-5)
    for row in range(6):
        one = [each[row : row + 1] for each in found]
        loss = reference.critics_loss(one, exact["value_targets"][row : row + 1], np.ones(1))
        assert metrics["td_errors"][row] == pytest.approx(loss / 3, rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_the_policy_is_the_reference(dtype: Any) -> None:
    module, vector, batch = small(dtype)

    def expected(vector: Any) -> float:
        inputs = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
        noise = batch["action_noise"].astype(np.float64)
        actions, log_probs = soft_actor_critic.squashed_gaussian_actions(inputs, noise)
        told = in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"], actions))
        return reference.policy_loss(log_probs, told, math.exp(module.table.views(vector)["temperature/log"][0]))

    gradients_agree(policy_loss(SQUASHED, mean_quantile), module, vector, batch, expected, "policy/")


def test_the_highest_quantiles_of_all_critics_are_dropped() -> None:
    first, second = np.array([[5.0, 1, 3], [0, 0, 9]]), np.array([[4.0, 6, 2], [8, 7, -1]])
    np.testing.assert_array_equal(truncated_mixture([first, second], 1), [[1, 2, 3, 4], [-1, 0, 0, 7]])
    np.testing.assert_array_equal(truncated_mixture([first, second], 0)[1], [-1, 0, 0, 7, 8, 9])
    with pytest.raises(DataError, match="3 quantiles of each of 2 critics are to be dropped, but each has only 3: dr"):
        truncated_mixture([first, second], 3)


def test_targets_are_those_of_the_paper() -> None:
    algorithm = TQC(config())
    algorithm.train()
    batch = algorithm.draw()
    draws = algorithm.draws.bit_generator.state
    found = algorithm.targets_of(batch)
    assert found.shape == (32, 3 * (5 - 2))
    learner, module = algorithm.learner, algorithm.module
    inputs = learner.evaluate(lambda nn, p: module.train(nn, p, {"obs": batch["new_obs"]})["action_dist_inputs"])
    algorithm.draws.bit_generator.state = draws
    actions, log_probs = soft_actor_critic.squashed_gaussian_actions(inputs, algorithm.normals(32))
    told = learner.evaluate(
        lambda nn, p: module.q_values(nn, p, batch["new_obs"], actions.astype(np.float32)), algorithm.target.vector
    )
    alpha = math.exp(learner.evaluate(lambda nn, p: p["temperature/log"][0]))
    expected = reference.truncated_targets(told, log_probs, batch["rewards"], batch[DISCOUNTS], alpha, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(algorithm.learner.weights, algorithm.target.vector)


class Bet(gymnasium.Env[Any, Any]):
    """Ends after one step, and pays any number from 0 to 4, all alike, less four times the square of action - 0.5."""

    observation_space: Any = spaces.Box(-1, 1, (1,), np.float32)
    action_space: Any = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Take a bet."""
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pay."""
        paid = 4 * float(self.np_random.random()) - 4 * float(action[0] - 0.5) ** 2
        return np.ones(1, np.float32), paid, True, False, {}


def test_it_learns_the_quantiles_of_known_returns_and_the_best_action() -> None:
    algorithm = TQC(
        config(Bet)
        .training(
            n_critics=2,
            top_quantiles_to_drop_per_net=0,
            actor_lr=3e-3,
            critic_lr=[[0, 1e-2], [750, 1e-2], [1500, 0.0]],
            alpha_lr=3e-3,
            initial_alpha=0.1,
            training_intensity=32.0,
            replay_buffer_config={"type": UNIFORM, "capacity": 10_000},
        )
        .reporting(min_sample_timesteps_per_iteration=1500)
    )
    algorithm.train()
    assert abs(float(algorithm.compute_single_action(np.ones(1), explore=False)[0]) - 0.5) < 0.15
    obs, actions = np.ones((1, 1), np.float32), np.full((1, 1), 0.5, np.float32)
    found = algorithm.learner.evaluate(lambda nn, p: algorithm.module.q_values(nn, p, obs, actions))
    for quantiles in found:
        np.testing.assert_allclose(quantiles[0], [huber_quantile(level) for level in quantile_midpoints(5)], atol=0.25)


def huber_quantile(level: float) -> float:
    """Return what a quantile of payments from 0 to 4 is drawn to: Huber's loss up to 1 draws it inwards."""
    paid = np.linspace(0, 4, 10_001)
    quantiles = np.linspace(0, 4, 401)
    pulls = [np.mean(abs(level - (paid < each)) * (paid - each).clip(-1, 1)) for each in quantiles]
    return float(quantiles[np.abs(pulls).argmin()])


@pytest.mark.usefixtures("session")
def test_any_number_of_runners_ends_with_the_same_bits() -> None:
    alone, many = TQC(config()), TQC(config(num_env_runners=2))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    settings = config().training(n_step=(1, 3), replay_buffer_config={"capacity": 300})
    straight = TQC(settings)
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = TQC(settings.copy(copy_frozen=False))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_without_settings_it_is_that_of_rllib() -> None:
    config = TQCConfig()
    assert (config.n_quantiles, config.n_critics, config.top_quantiles_to_drop_per_net) == (25, 2, 2)
    config.training(n_quantiles=1, n_critics=1, top_quantiles_to_drop_per_net=0).validate()


def test_priorities_are_the_losses_of_rows() -> None:
    algorithm = TQC(config().training(replay_buffer_config={"worker_side_prioritization": True}))
    algorithm.training_step()
    kept: Any = algorithm.replay.state()
    assert (kept["priorities"] > 0).all() and len(set(kept["priorities"].tolist())) == len(kept["priorities"])


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"twin_q": False}, ConfigError, "twin_q has no effect on TQC: n_critics says how many critics there are"),
        (
            {"top_quantiles_to_drop_per_net": 5},
            ConfigError,
            "top_quantiles_to_drop_per_net=5 leaves none of n_quantiles=5; drop fewer, or learn more",
        ),
        (
            {"lr": 0.5},
            ConfigError,
            "lr=0.5 has no effect on TQC, each network of which has a rate; set actor_lr",
        ),
        ({"n_critics": 0}, ConfigError, "n_critics is 0, but must be a whole number from 1 on"),
        (
            {"env": "CartPole-v1"},
            SpaceError,
            r"TQC can't learn actions of Discrete\(2\): a Box of floats, or",
        ),
    ],
)
def test_what_it_does_not_take_is_refused(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    settings = dict(wrong)
    env = settings.pop("env", "Pendulum-v1")
    with pytest.raises(error, match=said):
        TQC(config(env).training(**settings))
