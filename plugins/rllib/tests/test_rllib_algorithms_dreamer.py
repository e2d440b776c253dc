"""Dreamer: its losses are the paper's, the actor's gradient goes through what is imagined, and runs repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dreamer import Dreamer
from kernel_rllib.algorithms.dreamer_v1_losses import (
    ACTION_NOISE,
    FEATURES,
    NOISE,
    WEIGHTS,
    actor_loss,
    critic_loss,
    world_loss,
)
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.squashed_gaussian import SquashedGaussian
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.prefilled import PrefilledDraws
from kernel_rllib.modules.latent_dynamics import LatentDynamics, LatentSizes
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.gradients import finite_differences
from kernel_rllib.testing.losses import in_float64, loss_and_gradient
from kernel_rllib.testing.reference import dreamer as reference

SMALL = {
    "env": "Pendulum-v1",
    "horizon": 20,
    "seed": 3,
    "num_envs": 2,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "dreamer_model": {"deter_size": 6, "stoch_size": 3, "hidden_size": 5, "action_init_std": 1.0},
    "batch_size": 2,
    "batch_length": 6,
    "imagine_horizon": 4,
    "dreamer_train_iters": 2,
    "prefill_timesteps": 40,
    "buffer_size": 400,
    "store_buffer_in_checkpoints": True,
    "min_time_s_per_iteration": 0,
}


def made(**more: Any) -> Dreamer:
    """Return a small algorithm."""
    return Dreamer({**SMALL, **more})


NETWORKS = LatentDynamics(3 + 2 + 1, 2, LatentSizes(4, 3, 5))
DISTRIBUTION = SquashedGaussian(Bounds((-1.0, -1.0), (1.0, 1.0)))
VECTOR = np.random.default_rng(1).normal(0, 0.4, NETWORKS.table.size)


def sequences() -> Batch:
    """Return sequences [3, 2] with made-up numbers, in which an episode begins."""
    draw = np.random.default_rng(2)
    firsts = np.zeros((3, 2), bool)
    firsts[2, 0] = True
    rows, noise = draw.normal(size=(3, 2, 6)), draw.normal(size=(3, 2, 3))
    return in_float64(Batch({columns.OBS: rows, "firsts": firsts, NOISE: noise}))


def starts(count: int = 3, steps: int = 4) -> Batch:
    """Return states to imagine from, with what is drawn by."""
    draw = np.random.default_rng(3)
    return in_float64(Batch({
        FEATURES: draw.normal(size=(count, NETWORKS.features)),
        ACTION_NOISE: draw.normal(size=(count, steps, 2)),
        NOISE: draw.normal(size=(count, steps, 3)),
    }))  # fmt: skip


@pytest.mark.parametrize("free_nats", [0.0, 100.0])
def test_the_loss_of_the_dynamics_is_the_one_of_the_paper(free_nats: float) -> None:
    batch, nn, views = sequences(), NumpyOps(np.float64), NETWORKS.table.views(VECTOR)
    loss = world_loss(0.7, free_nats)
    metrics, gradient = loss_and_gradient(loss, NETWORKS, VECTOR, batch)
    h, z, (mean, std) = NETWORKS.observe(nn, views, batch[columns.OBS], batch["firsts"], batch[NOISE])
    np.testing.assert_allclose(z, mean + std * batch[NOISE], rtol=1e-9)
    features = np.concatenate([h, z], axis=-1)
    np.testing.assert_allclose(metrics[FEATURES], features, rtol=1e-9)
    prior_mean, prior_std = NETWORKS.imagined(nn, views, h)
    flat = [array.reshape(6, -1) for array in (mean, std, prior_mean, prior_std)]
    divergences = [reference.normal_divergence(*each) for each in zip(*flat, strict=True)]
    rows, given = batch[columns.OBS].reshape(6, 6), features.reshape(6, -1)
    total = reference.first_world_loss(
        NETWORKS.decoder(nn, views, given), rows[:, :3], NETWORKS.reward(nn, views, given)[:, 0], rows[:, -1],
        divergences, 0.7, free_nats,
    )  # fmt: skip
    assert metrics["world_model_loss"] == pytest.approx(total, rel=1e-9)
    slopes = finite_differences(lambda nn, p: loss(nn, NETWORKS, p, batch), VECTOR, NETWORKS.table)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-8)


def test_memories_begin_anew_where_episodes_do() -> None:
    batch, nn, views = sequences(), NumpyOps(np.float64), NETWORKS.table.views(VECTOR)
    h, _, _ = NETWORKS.observe(nn, views, batch[columns.OBS], batch["firsts"], batch[NOISE])
    alone = [np.array(batch[name][2:, :1]) for name in (columns.OBS, "firsts", NOISE)]
    np.testing.assert_allclose(h[2, 0], NETWORKS.observe(nn, views, *alone)[0][0, 0], rtol=1e-9)


def test_the_loss_of_the_actor_is_what_the_dynamics_imagine_and_its_gradient_goes_through_them() -> None:
    batch, nn, views = starts(), NumpyOps(np.float64), NETWORKS.table.views(VECTOR)
    loss = actor_loss(DISTRIBUTION, 0.9, 0.8)
    metrics, gradient = loss_and_gradient(loss, NETWORKS, VECTOR, batch)
    total, horizon = 0.0, 3
    for n in range(3):
        h, z = batch[FEATURES][n : n + 1, :4], batch[FEATURES][n : n + 1, 4:]
        rewards, values = [], []
        for step in range(4):
            inputs = NETWORKS.choices(nn, views, np.concatenate([h, z], axis=-1))
            action = np.tanh(inputs[:, :2] + np.exp(inputs[:, 2:]) * batch[ACTION_NOISE][n, step])
            h = NETWORKS.recurrent(nn, views, h, z, action)
            mean, std = NETWORKS.imagined(nn, views, h)
            z = mean + std * batch[NOISE][n, step]
            features = np.concatenate([h, z], axis=-1)
            rewards.append(float(NETWORKS.reward(nn, views, features)[0, 0]))
            values.append(float(NETWORKS.critic(nn, views, features)[0, 0]))
        found = reference.first_returns(rewards, values, 0.9, 0.8)
        np.testing.assert_allclose(metrics[columns.VALUE_TARGETS][:, n], found, rtol=1e-6)
        total -= sum(0.9**t * found[t] for t in range(horizon)) / (3 * horizon)
    assert metrics["actor_loss"] == pytest.approx(total, rel=1e-7)
    slopes = finite_differences(lambda nn, p: loss(nn, NETWORKS, p, batch), VECTOR, NETWORKS.table)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-8)


def test_the_loss_of_the_critic_is_half_its_weighed_squared_error() -> None:
    draw, views = np.random.default_rng(4), NETWORKS.table.views(VECTOR)
    batch = in_float64(Batch({
        FEATURES: draw.normal(size=(5, NETWORKS.features)), columns.VALUE_TARGETS: draw.normal(size=5),
        WEIGHTS: draw.random(5),
    }))  # fmt: skip
    metrics, gradient = loss_and_gradient(critic_loss(), NETWORKS, VECTOR, batch)
    values = NETWORKS.critic(NumpyOps(np.float64), views, batch[FEATURES])[:, 0]
    errors = [
        w * (v - t) ** 2 / 2 for w, v, t in zip(batch[WEIGHTS], values, batch[columns.VALUE_TARGETS], strict=True)
    ]
    assert metrics["critic_loss"] == pytest.approx(np.mean(errors), rel=1e-9)
    slopes = finite_differences(lambda nn, p: critic_loss()(nn, NETWORKS, p, batch), VECTOR, NETWORKS.table)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-8)


def test_only_the_actor_learns_from_what_it_imagines() -> None:
    algorithm = made()
    while not algorithm.learner.version:
        algorithm.train()
    before = algorithm.learner.weights.copy()
    batch = algorithm.imagined_batch(np.zeros((3, 9), np.float32), np.random.default_rng(0))
    algorithm.learner.update(batch, 0, ["actor"])
    table = algorithm.learner.module.table
    moved = {
        name: not np.array_equal(before[table.mask((name,))[0]], algorithm.learner.weights[table.mask((name,))[0]])
        for name in ("world", "actor", "critic")
    }
    assert moved == {"world": False, "actor": True, "critic": False}


def test_actions_are_any_ones_at_first_and_then_those_of_the_actor_with_noise() -> None:
    bounds = np.full(2, -1, np.float32), np.full(2, 1, np.float32)
    exploration = PrefilledDraws(DISTRIBUTION, bounds, stddev=0.3, prefill=10)
    nn, noise = NumpyOps(), np.random.default_rng(0).normal(size=(4000, 4)).astype(np.float32)
    outputs = {columns.ACTION_DIST_INPUTS: np.tile(np.float32([0.5, 0, -9, -9]), (4000, 1))}
    first, then = (exploration.choose(nn, outputs, noise, step) for step in (9, 10))
    assert np.histogram(first, bins=4, range=(-1, 1))[0].min() > 1800
    np.testing.assert_allclose(then, np.clip(np.tanh([0.5, 0]) + 0.3 * noise[:, 2:], -1, 1), atol=1e-3)
    np.testing.assert_allclose(exploration.best(nn, outputs)[0], np.tanh([0.5, 0]), atol=1e-6)


def test_nothing_is_learned_while_the_buffer_is_filled_and_then_as_often_as_said() -> None:
    algorithm = made()
    first = algorithm.train()
    assert algorithm.env_steps_sampled == 40 and first["info"]["learner"] and algorithm.learner.version == 2 * 3
    assert algorithm.env_steps_trained == 2 * 2 * 6
    late = made(prefill_timesteps=41)
    late.train()
    assert late.learner.version == 0


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners)
        algorithm.train()
        found.append(algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1]


def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    for algorithm in (straight, resumed):
        algorithm.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    assert np.isfinite(resumed.evaluate()["episode_reward_mean"])


def test_settings_are_those_of_rllib() -> None:
    config = Dreamer.config_class()
    expected = {
        "td_model_lr": 6e-4, "actor_lr": 8e-5, "critic_lr": 8e-5, "grad_clip": 100, "lambda_": 0.95, "gamma": 0.99,
        "dreamer_train_iters": 100, "batch_size": 50, "batch_length": 50, "imagine_horizon": 15, "free_nats": 3,
        "kl_coeff": 1, "prefill_timesteps": 5000, "explore_noise": 0.3, "batch_mode": "complete_episodes",
        "sizes": LatentSizes(200, 30, 400, 32, 5.0),
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"env": "CartPole-v1"}, "acts in spaces that are a Box of floats with bounds, and this one is Discrete"),
        ({"dreamer_model": {"deter": 3}}, "dreamer_model sets 'deter', which is no option"),
        ({"dreamer_model": {"custom_model": 3}}, "dreamer_model has a custom_model, and its networks are dense ones"),
        ({"normalize_actions": False}, "normalize_actions=False: its actor acts between -1 and 1; leave it at True"),
        ({"buffer_size": 11}, "buffer_size=11 has no room for a sequence of batch_length=6 of each of 2 environments"),
        ({"lr": 0.1}, "lr has no effect on Dreamer: its networks have rates of their own: td_model_lr, actor_lr"),
    ],
)
def test_settings_that_do_not_fit_are_refused(more: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**more)
