"""DreamerV3: its losses are the paper's, runners remember as learners do, and dreams are what the model says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.dreamer_losses import (
    FEATURES,
    REWARD_BINS,
    SLOW_BINS,
    UNIFORMS,
    VALUE_BINS,
    WEIGHTS,
    actor_loss,
    critic_loss,
    world_loss,
)
from kernel_rllib.algorithms.dreamerv3 import DreamerV3
from kernel_rllib.algorithms.dreaming import Dream
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.modules.symlog import bins, expected, symexp, symlog, two_hot
from kernel_rllib.modules.world_model import BINS, EPSILON, SIZES, DreamerNetworks
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.replay.streams import StreamReplay
from kernel_rllib.testing.losses import in_float64, loss_and_gradient
from kernel_rllib.testing.reference import dreamer as reference

SMALL = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 2,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "model_size": "nano",
    "batch_size_B": 2,
    "batch_length_T": 6,
    "horizon_H": 4,
    "training_ratio": 2,
    "replay_buffer_config": {"capacity": 200},
    "store_buffer_in_checkpoints": True,
    "min_time_s_per_iteration": 0,
    "min_sample_timesteps_per_iteration": 40,
}
OF_PENDULUM = {"env": "Pendulum-v1"}


def made(**more: Any) -> DreamerV3:
    """Return a small algorithm."""
    return DreamerV3({**SMALL, **more})


# -- numbers of any size ---------------------------------------------------------------------------------------------


def test_symlog_and_two_hot_are_those_of_the_paper() -> None:
    numbers = np.array([-1e6, -3.0, -0.2, 0.0, 1e-3, 1.0, 77.0, 1e9])
    np.testing.assert_allclose(symlog(numbers), [reference.symlog(x) for x in numbers], rtol=1e-12)
    np.testing.assert_allclose(symexp(symlog(numbers)), numbers, rtol=1e-9)
    found, places = two_hot(numbers, 41), bins(41, np.float64)
    np.testing.assert_allclose(found, [reference.two_hot(x, places.tolist()) for x in numbers], atol=1e-9)
    np.testing.assert_allclose(symexp(found[:-1] @ places), numbers[:-1], rtol=1e-6, atol=1e-9)


def test_a_distribution_over_bins_stands_for_its_mean_and_an_even_one_for_nothing() -> None:
    places, logits = bins(BINS, np.float64), np.random.default_rng(0).normal(size=(3, BINS))
    for row, value in zip(logits, expected(logits), strict=True):
        mean = np.dot(reference.probabilities(row.tolist()), places)
        assert value == pytest.approx(reference.symexp(float(mean)), rel=1e-9)
    assert np.abs(expected(np.zeros((2, BINS), np.float32))).max() < 1e-5


# -- networks and losses ---------------------------------------------------------------------------------------------

DISCRETE = DreamerNetworks(3 + 2 + 1, 2, Categorical(2), size="nano")
CONTINUOUS = DreamerNetworks(3 + 2 + 1, 2, Gaussian(2), size="nano")


def parameters_of(networks: DreamerNetworks) -> Any:
    """Return random parameters: some are zero at first."""
    return np.random.default_rng(1).normal(0, 0.3, networks.table.size)


def sequences(steps: int = 3, count: int = 2) -> Batch:
    """Return sequences with made-up numbers, in which an episode begins."""
    draw = np.random.default_rng(2)
    rows = draw.normal(size=(steps, count, 6)) * 2
    firsts, terminals = np.zeros((2, steps, count), bool)
    firsts[2, 0], terminals[1, 0] = True, True
    return in_float64(Batch({
        columns.OBS: rows, "firsts": firsts, "terminals": terminals,
        UNIFORMS: draw.random((steps, count, 4)), REWARD_BINS: two_hot(rows[..., -1], BINS),
    }))  # fmt: skip


def test_the_recurrent_layer_is_the_one_of_the_paper() -> None:
    draw, vector = np.random.default_rng(0), parameters_of(DISCRETE)
    views = DISCRETE.table.views(vector)
    h, z, action = draw.normal(size=(4, 16)), draw.random((4, 16)), draw.normal(size=(4, 2))
    found = DISCRETE.recurrent(NumpyOps(np.float64), views, h, z, action)
    layers = [[views[f"world/{name}/{part}"] for part in ("weight", "scale", "offset")] for name in ("before", "gates")]
    step = reference.Recurrent(*layers, EPSILON)
    expected_h = [step(*(each.tolist() for each in row)) for row in zip(h, z, action, strict=True)]
    np.testing.assert_allclose(found, expected_h, rtol=1e-9, atol=1e-12)


def test_the_worlds_loss_is_the_one_of_the_paper() -> None:
    networks, batch = DISCRETE, sequences()
    vector = parameters_of(networks)
    nn, views = NumpyOps(np.float64), networks.table.views(vector)
    metrics, _ = loss_and_gradient(world_loss(), networks, vector, batch)
    h, z, posterior = networks.observe(nn, views, batch[columns.OBS], batch["firsts"], batch[UNIFORMS])
    np.testing.assert_allclose(z, np.round(z), atol=1e-9)
    assert (np.round(z).sum(axis=-1) == 1).all()
    features = np.concatenate([h, z.reshape(3, 2, -1)], axis=-1)
    np.testing.assert_allclose(metrics[FEATURES], features, rtol=1e-9)
    prior = networks.shares(nn, networks.prior(nn, views, h))
    flat = features.reshape(6, -1)
    rows = batch[columns.OBS].reshape(6, -1)
    total = reference.world_loss(
        networks.decoder(nn, views, flat), rows[:, :3], networks.reward(nn, views, flat), rows[:, -1],
        networks.going_on(nn, views, flat)[:, 0], batch["terminals"].ravel(),
        posterior.reshape(6, 4, 4), prior.reshape(6, 4, 4), bins(BINS, np.float64).tolist(),
    )  # fmt: skip
    assert metrics["world_model_loss"] == pytest.approx(total, rel=1e-7)


def test_gradients_of_the_world_are_those_of_its_parts_held_still() -> None:
    """Draws are held still, as is what each KL term holds still: then the loss has no step, and a gradient."""
    networks, batch = DISCRETE, sequences()
    vector = parameters_of(networks)
    nn, views = NumpyOps(np.float64), networks.table.views(vector)
    h, z, posterior = networks.observe(nn, views, batch[columns.OBS], batch["firsts"], batch[UNIFORMS])
    prior = networks.shares(nn, networks.prior(nn, views, h))
    draws = [np.asarray(z - posterior)]  # straight-through: z = draw - sg(shares) + shares

    class Still(DreamerNetworks):
        """Holds the draws of one pass, as what is added to probabilities."""

        def drawn(self, nn: Any, shares: Any, uniforms: Any) -> Any:
            step = self.__dict__.setdefault("step", 0)
            self.__dict__["step"] = (step + 1) % len(batch[columns.OBS])
            return draws[0][step] + nn.to_numpy(shares)

    still = Still(3 + 2 + 1, 2, Categorical(2), size="nano")
    _, gradient = loss_and_gradient(world_loss(), networks, vector, batch)
    _, held = loss_and_gradient(world_loss(), still, vector, batch)
    np.testing.assert_allclose(held, gradient, rtol=1e-9, atol=1e-12)

    def parted(nn: Any, parameters: Any) -> Any:
        """The loss with its constants as arrays of before: its slopes are all of the gradient."""
        h, z, now = still.observe(nn, parameters, batch[columns.OBS], batch["firsts"], batch[UNIFORMS])
        features = nn.concat([h, nn.reshape(z, (3, 2, 16))])
        seen = still.split(batch[columns.OBS])[0]
        error = nn.sum(nn.square(still.decoder(nn, parameters, features) - seen), axis=-1)
        reward = -nn.sum(nn.log_softmax(still.reward(nn, parameters, features)) * batch[REWARD_BINS], axis=-1)
        logit = still.going_on(nn, parameters, features)[..., 0]
        end = nn.where(batch["terminals"], nn.softplus(logit), nn.softplus(-logit))
        then = still.shares(nn, still.prior(nn, parameters, h))
        dynamics = nn.sum(posterior * (np.log(posterior) - nn.log(then)), axis=(-2, -1))
        representation = nn.sum(now * (nn.log(now) - np.log(prior)), axis=(-2, -1))
        return nn.mean(error + reward + end + 0.5 * nn.maximum(dynamics, np.ones((3, 2))) + 0.1 * nn.maximum(
            representation, np.ones((3, 2)))), {}  # fmt: skip

    draw = np.random.default_rng(4)
    chosen = draw.permutation(networks.table.size)[:60]
    backend = NumpyBackend()

    def at(k: int, distance: float) -> float:
        moved = vector.copy()
        moved[k] += distance
        return float(backend.evaluate(lambda nn, p: parted(nn, p)[0], moved, networks.table))

    slopes = [(at(k, 1e-5) - at(k, -1e-5)) / 2e-5 for k in chosen]
    np.testing.assert_allclose(gradient[chosen], slopes, rtol=1e-4, atol=1e-7)


def check_slopes(loss: Any, networks: Any, vector: Any, batch: Batch, gradient: Any, below: tuple[str, ...]) -> None:
    """Compare a gradient with finite differences, at some of the parameters below a prefix."""
    (place,) = networks.table.mask(below)
    backend = NumpyBackend()

    def at(k: int, distance: float) -> float:
        moved = vector.copy()
        moved[k] += distance
        return float(backend.evaluate(lambda nn, p: loss(nn, networks, p, batch)[0], moved, networks.table))

    for k in np.random.default_rng(8).integers(place.start, place.stop, size=40):
        slope = (at(k, 1e-5) - at(k, -1e-5)) / 2e-5
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def dreamed(networks: DreamerNetworks, actions: Any, rows: int = 5) -> Batch:
    """Return rows of dreams with made-up numbers."""
    draw = np.random.default_rng(5)
    return in_float64(Batch({
        FEATURES: draw.normal(size=(rows, networks.features)), columns.ACTIONS: actions,
        columns.ADVANTAGES: draw.normal(size=rows), WEIGHTS: draw.random(rows),
        VALUE_BINS: two_hot(draw.normal(size=rows) * 9, BINS), SLOW_BINS: two_hot(draw.normal(size=rows) * 9, BINS),
    }))  # fmt: skip


@pytest.mark.parametrize("networks", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_losses_of_actor_and_critic_are_those_of_the_paper(networks: DreamerNetworks) -> None:
    draw, vector = np.random.default_rng(6), parameters_of(networks)
    is_discrete = networks is DISCRETE
    batch = dreamed(networks, draw.integers(2, size=5) if is_discrete else draw.normal(size=(5, 2)))
    nn, views = NumpyOps(np.float64), networks.table.views(vector)
    loss = actor_loss(networks.distribution, 0.1)
    metrics, gradient = loss_and_gradient(loss, networks, vector, batch)
    given = networks.actor(nn, views, batch[FEATURES])
    log_probs, entropies = [], []
    for row, action in zip(given, batch[columns.ACTIONS], strict=True):
        if is_discrete:
            shares = reference.probabilities(row.tolist(), 0.01)
            log_probs.append(np.log(shares[int(action)]))
            entropies.append(-sum(p * np.log(p) for p in shares))
        else:
            mean, std = np.tanh(row[:2]), 0.9 / (1 + np.exp(-(row[2:] + 2))) + 0.1
            log_probs.append(float((-0.5 * ((action - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum()))
            entropies.append(float((0.5 * np.log(2 * np.pi * np.e) + np.log(std)).sum()))
    weights, advantages = batch[WEIGHTS].tolist(), batch[columns.ADVANTAGES].tolist()
    total = reference.actor_loss(log_probs, entropies, advantages, weights, 0.1)
    assert metrics["actor_loss"] == pytest.approx(total, rel=1e-9)
    check_slopes(loss, networks, vector, batch, gradient, ("actor",))
    metrics, gradient = loss_and_gradient(critic_loss(), networks, vector, batch)
    check_slopes(critic_loss(), networks, vector, batch, gradient, ("critic",))
    logits = networks.critic(nn, views, batch[FEATURES])
    expected_loss = np.mean([
        weight * sum(reference.cross_entropy(batch[name][row].tolist(), logits[row].tolist())
                     for name in (VALUE_BINS, SLOW_BINS))
        for row, weight in enumerate(weights)
    ])  # fmt: skip
    assert metrics["critic_loss"] == pytest.approx(expected_loss, rel=1e-9)


def test_returns_in_dreams_and_their_weights_are_those_of_the_paper() -> None:
    draw = np.random.default_rng(7)
    dream = Dream(
        features=np.zeros((5, 3, 1)), actions=np.zeros((4, 3)), rewards=draw.normal(size=(4, 3)),
        going_on=draw.random((5, 3)), values=draw.normal(size=(5, 3)),
    )  # fmt: skip
    found, weights = dream.returns(0.9, 0.7), dream.weights(0.9)
    for lane in range(3):
        each = (array[:, lane].tolist() for array in (dream.rewards, dream.going_on, dream.values))
        np.testing.assert_allclose(found[:, lane], reference.lambda_returns(*each, 0.9, 0.7), rtol=1e-6)
        going_on = dream.going_on[:, lane]
        np.testing.assert_allclose(weights[:, lane], [np.prod(going_on[: t + 1]) * 0.9**t for t in range(4)], rtol=1e-5)


def test_sizes_are_those_of_the_paper() -> None:
    assert (SIZES["XL"].units, SIZES["XL"].gru_units, SIZES["XL"].layers) == (1024, 4096, 5)
    assert (SIZES["XS"].categoricals, SIZES["XS"].classes) == (32, 32)


# -- what is kept ----------------------------------------------------------------------------------------------------


def fragment_of(start: int, steps: int, ends: dict[tuple[int, int], bool], resets: Any) -> Fragment:
    """Return a fragment of two lanes whose rows count steps from `start`; `ends` says which are terminal."""
    rows = np.arange(start, start + steps)[:, None] + np.array([0, 1000])
    terminated, truncated = np.zeros((2, steps, 2), bool)
    for (t, lane), terminal in ends.items():
        (terminated if terminal else truncated)[t, lane] = True
    at = np.array(sorted(ends), np.int64).reshape(-1, 2)
    found = {
        columns.OBS: rows[..., None].astype(np.float32), columns.RESETS: resets,
        columns.TERMINATEDS: terminated, columns.TRUNCATEDS: truncated, columns.REWARDS: np.zeros((steps, 2)),
    }  # fmt: skip
    final = np.array([[-rows[t, lane]] for t, lane in at], np.float32).reshape(-1, 1)
    return Fragment(found, rows[-1:].T.astype(np.float32), at, final, np.array([0, 1]))


def test_rows_are_kept_in_order_with_final_observations_among_them() -> None:
    replay, resets = StreamReplay(20, 1), np.zeros((4, 2), bool)
    resets[0], resets[2, 0] = True, True
    replay.add(fragment_of(1, 4, {(1, 0): True, (3, 1): False}, resets))
    replay.add(fragment_of(5, 2, {}, np.array([[False, True], [False, False]])))
    assert len(replay) == 7 + 7
    found = replay.sample(1000, 7, np.random.default_rng(0))
    first = found[columns.OBS][:, :, 0]
    lane = first[:, first[0] == 1][:, 0], first[:, first[0] == 1001][:, 0]
    np.testing.assert_array_equal(lane[0], [1, 2, -2, 3, 4, 5, 6])
    np.testing.assert_array_equal(lane[1], [1001, 1002, 1003, 1004, -1004, 1005, 1006])
    at = int(np.flatnonzero(first[0] == 1)[0])
    np.testing.assert_array_equal(found["firsts"][:, at], [1, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(found["terminals"][:, at], [0, 0, 1, 0, 0, 0, 0])
    other = int(np.flatnonzero(first[0] == 1001)[0])
    assert not found["terminals"][:, other].any(), "it was cut, and nothing ended"
    assert found["firsts"][:, other].tolist() == [True, False, False, False, False, True, False]


def test_the_oldest_rows_go_and_each_sequence_is_as_likely_as_any_other() -> None:
    replay = StreamReplay(12, 1)
    for start in range(0, 20, 4):
        replay.add(fragment_of(start, 4, {}, np.zeros((4, 2), bool)))
    assert (len(replay), replay.sequences(3)) == (12, 8)
    found = replay.sample(8000, 3, np.random.default_rng(0))[columns.OBS][..., 0]
    assert (np.diff(found, axis=0) == 1).all()
    starts, counts = np.unique(found[0], return_counts=True)
    assert starts.tolist() == [14, 15, 16, 17, 1014, 1015, 1016, 1017] and counts.min() > 850
    again = StreamReplay(12, 1)
    again.set_state(replay.state())
    again.add(fragment_of(20, 4, {}, np.zeros((4, 2), bool)))
    replay.add(fragment_of(20, 4, {}, np.zeros((4, 2), bool)))
    drawn = [each.sample(5, 3, np.random.default_rng(1))[columns.OBS] for each in (replay, again)]
    np.testing.assert_array_equal(*drawn)


def test_lanes_may_be_lost_and_others_are_refused() -> None:
    replay = StreamReplay(20, 1)
    replay.add(fragment_of(0, 4, {}, np.zeros((4, 2), bool)))
    replay.add(fragment_of(4, 4, {(1, 1): True}, np.zeros((4, 2), bool)).of_lanes(1, 2))
    found = replay.sample(200, 9, np.random.default_rng(0))[columns.OBS][..., 0]
    assert np.unique(found, axis=1).T.tolist() == [[1000, 1001, 1002, 1003, 1004, 1005, -1005, 1006, 1007]]
    with pytest.raises(
        DataError, match=r"^a fragment has lanes \[1\], and the buffer is shared by lanes \[0\]: add one"
    ):
        made = StreamReplay(20, 1)
        made.add(fragment_of(0, 4, {}, np.zeros((4, 2), bool)).of_lanes(0, 1))
        made.add(fragment_of(0, 4, {}, np.zeros((4, 2), bool)))


# -- the algorithm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, OF_PENDULUM], ids=["discrete", "continuous"])
def test_what_runners_remember_is_what_learners_observe(more: Any) -> None:
    algorithm = made(**more, rollout_fragment_length=30, num_envs=1)
    fragment = algorithm.sample()
    networks = algorithm.learner.module

    def remembered(nn: Any, parameters: Any) -> Any:
        found, h, z = [], np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
        _, actions, _ = networks.split(fragment.columns[columns.OBS])
        for t in range(30):
            keep = np.float32(1 - fragment.columns[columns.RESETS][t])[:, None]
            h = networks.recurrent(nn, parameters, h * keep, z * keep, actions[t])
            found.append(h)
            z = fragment.state_in["z"][t + 1] if t < 29 else z
        return np.stack(found)

    h = algorithm.learner.evaluate(remembered)
    after = ~fragment.columns[columns.RESETS][1:, 0]
    np.testing.assert_allclose(h[:-1][after], fragment.state_in["h"][1:][after], rtol=1e-4, atol=1e-5)
    z = fragment.state_in["z"][1:][after].reshape(-1, 4, 4)
    assert ((z == 0) | (z == 1)).all() and (z.sum(axis=-1) == 1).all()


def test_the_last_action_and_reward_are_beside_observations() -> None:
    algorithm = made(rollout_fragment_length=12, num_envs=1)
    fragment = algorithm.sample()
    rows, actions = fragment.columns[columns.OBS][:, 0], fragment.columns[columns.ACTIONS][:, 0]
    assert rows.shape == (12, 4 + 2 + 1)
    resets = fragment.columns[columns.RESETS][:, 0]
    for t in range(1, 12):
        last = np.zeros(3) if resets[t] else [*np.eye(2)[actions[t - 1]], 1.0]
        np.testing.assert_array_equal(rows[t, 4:], last)


def test_dreams_are_what_the_model_says() -> None:
    algorithm = made()
    algorithm.train()
    draw, networks = np.random.default_rng(0), algorithm.learner.module
    starts = draw.normal(size=(5, networks.features)).astype(np.float32)
    ended = np.array([False, True, False, False, False])
    dream = algorithm.dream(starts, ended, np.random.default_rng(1))
    assert dream.features.shape == (5, 5, networks.features) and dream.actions.shape == (4, 5)
    np.testing.assert_array_equal(dream.features[0], starts)
    np.testing.assert_array_equal(dream.going_on[0], 1 - ended)

    def parts(nn: Any, parameters: Any) -> Any:
        following = [
            networks.recurrent(nn, parameters, at[:, :16], at[:, 16:], np.eye(2, dtype=np.float32)[action])
            for at, action in zip(dream.features[:-1], dream.actions, strict=True)
        ]
        heads = networks.reward(nn, parameters, dream.features[1:]), networks.critic(nn, parameters, dream.features)
        return np.stack(following), *heads

    following, rewards, critic = algorithm.learner.evaluate(parts)
    np.testing.assert_allclose(dream.features[1:, :, :16], following, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dream.rewards, expected(rewards), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(dream.values, expected(critic), rtol=1e-3, atol=1e-5)


def test_returns_are_scaled_by_their_range_and_the_slow_critic_follows() -> None:
    algorithm = made()
    algorithm.train()
    before, slow = algorithm.range, algorithm.slow.copy()
    assert before is not None and before[0] <= before[1]
    rewards = np.linspace(0, 100, 20, dtype=np.float32).reshape(1, 20)
    features = np.zeros((2, 20, algorithm.learner.module.features), np.float32)
    values = np.zeros((2, 20), np.float32)
    dream = Dream(features, np.zeros((1, 20), np.int64), rewards, np.ones((2, 20), np.float32), values)
    algorithm.range = (0.0, 10.0)
    batch, told = algorithm.dream_batch(dream)
    low, high = 0.01 * np.percentile(rewards, 5), 9.9 + 0.01 * np.percentile(rewards, 95)
    assert told["return_range"] == pytest.approx(high - low, rel=1e-5)
    np.testing.assert_allclose(batch[columns.ADVANTAGES], rewards[0] / (high - low), rtol=1e-5)
    algorithm.learn_once()
    critic = algorithm.learner.module.table.mask(("critic",))[0]
    now = algorithm.learner.weights[critic]
    np.testing.assert_allclose(algorithm.slow[critic], slow[critic] + 0.02 * (now - slow[critic]), atol=1e-6)


def test_updates_are_as_many_as_the_ratio_says() -> None:
    algorithm = made(training_ratio=3)
    for _ in range(3):
        algorithm.train()
    updates = algorithm.learner.version / 3
    assert updates == pytest.approx((algorithm.env_steps_sampled - 12) * 3 / 12, abs=2)
    assert algorithm.env_steps_trained == updates * 12


def test_actor_and_critic_may_stand_still() -> None:
    algorithm = made(train_actor=False, train_critic=False)
    before = algorithm.learner.weights.copy()
    algorithm.train()
    moved = {
        name: not np.array_equal(before[place], algorithm.learner.weights[place])
        for name in ("world", "actor", "critic")
        for place in algorithm.learner.module.table.mask((name,))
    }
    assert moved == {"world": True, "actor": False, "critic": False}


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners)
        algorithm.train()
        found.append(algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1]


@pytest.mark.parametrize("more", [{}, OF_PENDULUM], ids=["discrete", "continuous"])
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, more: Any) -> None:
    straight, resumed = made(**more), made(**more)
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    for algorithm in (straight, resumed):
        algorithm.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    assert resumed.slow.tobytes() == straight.slow.tobytes() and resumed.range == straight.range
    assert np.isfinite(resumed.evaluate()["episode_reward_mean"])


def test_settings_are_those_of_rllib_and_the_smallest_ones_are_taken() -> None:
    config = DreamerV3.config_class()
    expected_values = {
        "model_size": "XS", "training_ratio": 1024, "batch_size_B": 16, "batch_length_T": 64, "horizon_H": 15,
        "gae_lambda": 0.95, "entropy_scale": 3e-4, "return_normalization_decay": 0.99, "world_model_lr": 1e-4,
        "actor_lr": 3e-5, "critic_lr": 3e-5, "world_model_grad_clip_by_global_norm": 1000,
        "actor_grad_clip_by_global_norm": 100, "critic_grad_clip_by_global_norm": 100, "gamma": 0.997,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected_values} == expected_values
    algorithm = made(
        horizon_H=1, batch_size_B=1, batch_length_T=2, world_model_grad_clip_by_global_norm=0.5, entropy_scale=0,
        actor_grad_clip_by_global_norm=0.5, critic_grad_clip_by_global_norm=0.5, return_normalization_decay=0,
    )  # fmt: skip
    told = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert {
        "world_model_loss", "decoder_loss", "reward_loss", "continue_loss", "dynamics_loss", "representation_loss",
        "kl", "actor_loss", "critic_loss", "entropy", "dream_reward_mean", "dream_return_mean", "dream_value_mean",
        "return_range", "world_gradient_norm",
    } <= told.keys()  # fmt: skip


class Choices(gymnasium.Env):
    """Has two choices in each step."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"env": Choices}, "acts in spaces that are Discrete or a Box, and this one is MultiDiscrete"),
        ({"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}}, "all sequences are as likely as any"),
        (
            {"replay_buffer_config": {"capacity": 11}},
            "capacity=11 has no room for a sequence of batch_length_T=6 of ea",
        ),
        ({"normalize_actions": False}, "normalize_actions=False: actions that are a Box are between -1 and 1 here"),
        ({"lr": 0.1}, "lr has no effect on DreamerV3: its networks have rates of their own: world_model_lr, actor_lr"),
        ({"model": {"fcnet_hiddens": [3]}}, "has no effect on DreamerV3: model_size says how large all networks are"),
    ],
)
def test_settings_that_do_not_fit_are_refused(more: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**more)
