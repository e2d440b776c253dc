"""CRR: losses and weights as the paper has them, the better actions are imitated, the same bits again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.crr import CRR, CRRConfig, action_weights
from kernel_rllib.algorithms.weighted_imitation import ACTION_WEIGHTS, weighted_imitation_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import weighted_imitation as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.testing.training import weights_after

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
BOX, DISCRETE = spaces.Box(-1, 1, (1,)), spaces.Discrete(3)


def recorded(discrete: bool, count: int = 400) -> Batch:
    """Return episodes of one step: those actions are better that are near to half of what is observed, or its sign."""
    random = np.random.default_rng(5)
    obs = random.uniform(-1, 1, (count, 1)).repeat(2, axis=1).astype(np.float32)
    if discrete:
        actions: Any = random.integers(0, 3, count)
        rewards = (actions == np.where(obs[:, 0] > 0, 2, 0)).astype(np.float32)
    else:
        actions = random.uniform(-1, 1, (count, 1)).astype(np.float32)
        rewards = -4 * (actions[:, 0] - 0.5 * obs[:, 0]) ** 2
    ends = np.ones(count, bool)
    return Batch(obs=obs, new_obs=obs, actions=actions, rewards=rewards, terminateds=ends, truncateds=~ends)


def config(tmp_path: Path, discrete: bool = False, **training: Any) -> CRRConfig:
    """Return small settings that learn from recorded steps, in two lanes."""
    folder = str(tmp_path / "recorded")
    writer = JsonWriter(folder)
    for part in recorded(discrete).timeslices(50):
        writer.write(part)
    writer.close()
    return (
        CRRConfig()
        .environment(observation_space=spaces.Box(-1, 1, (2,)), action_space=DISCRETE if discrete else BOX)
        .env_runners(num_envs=2, num_env_runners=0, num_cpus_per_env_runner=0)
        .offline_data(input_=folder)
        .training(**{
            "train_batch_size": 32, "actor_hiddens": [16], "critic_hiddens": [16], "training_intensity": 2.0,
            "target_update_grad_intervals": 2, "store_buffer_in_checkpoints": True, **training,
        })
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (2,)), spaces.Discrete(4)], ids=["continuous", "discrete"])
def test_the_loss_of_the_policy_is_the_reference(dtype: Any, space: Any) -> None:
    distribution: Distribution = for_space(space)
    hidden = HiddenLayers((5,), "tanh")
    discrete = isinstance(space, spaces.Discrete)
    module = ActorQCritics(
        3, distribution.parameter_size, action_inputs=0 if discrete else 2, critic_outputs=4 if discrete else 1,
        options=ActorQCriticsOptions(hidden, hidden, 2, None),
    )  # fmt: skip
    random = np.random.default_rng(2)
    vector = (0.5 * random.normal(size=module.table.size)).astype(dtype)
    batch = Batch({
        "obs": random.normal(size=(6, 3)).astype(dtype), ACTION_WEIGHTS: random.random(6).astype(dtype),
        "actions": random.integers(0, 4, 6) if discrete else random.normal(size=(6, 2)).astype(dtype),
    })  # fmt: skip

    def expected(vector: Any) -> float:
        def log_probs(nn: Any, p: Any) -> Any:
            inputs = module.train(nn, p, batch)["action_dist_inputs"]
            return distribution.log_prob(nn, inputs, nn.constant(batch["actions"]))

        found = NumpyBackend().evaluate(log_probs, vector, module.table)
        return reference.weighted_imitation_loss(found, batch[ACTION_WEIGHTS])

    loss = weighted_imitation_loss(distribution)
    metrics, gradient = NumpyBackend().gradient(
        lambda nn, p: loss(nn, module, p, batch), vector, module.table, trainable=("policy/",)
    )
    exact, tolerance = vector.astype(np.float64), TOLERANCE[dtype]
    assert metrics["actor_loss"] == pytest.approx(expected(exact), rel=tolerance, abs=tolerance)
    slopes = numerical_gradient(expected, exact, step=1e-5)
    np.testing.assert_allclose(gradient, slopes, atol=max(tolerance, 1e-8) * 10 * max(1, np.abs(slopes).max()))
    assert np.abs(slopes).max() > 0.01


@pytest.mark.parametrize("kind", ["bin", "exp"])
def test_weights_are_the_reference(kind: Any) -> None:
    advantages = np.array([-9.0, -0.5, 0.0, 0.3, 2.0, 5000.0])
    settings = CRRConfig().training(weight_type=kind, temperature=0.5, max_weight=7.0)
    found = action_weights(advantages, settings)
    expected = reference.weights_of(np.minimum(advantages, 100), kind, 0.5, 7.0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_advantages_of_continuous_actions_are_over_those_that_the_policy_draws(kind: Any, tmp_path: Path) -> None:
    algorithm = CRR(config(tmp_path, advantage_type=kind, n_action_sample=5))
    algorithm.train()
    batch, draws = algorithm.draw(), algorithm.draws.bit_generator.state
    found = algorithm.advantages(batch)
    algorithm.draws.bit_generator.state = draws
    drawn, _ = algorithm.drawn_actions(batch["obs"], 5)
    assert drawn.shape == (32, 5, 1) and (np.abs(drawn) > 1).any()

    def least(actions: Any) -> Any:
        given = algorithm.learner.evaluate(lambda nn, p: algorithm.module.q_values(nn, p, batch["obs"], actions))
        return np.minimum(*given)

    others = np.stack([least(np.clip(drawn[:, index], -1, 1)) for index in range(5)], axis=1)
    expected = reference.advantages_over(least(batch["actions"]), others, kind)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    algorithm.stop()


@pytest.mark.parametrize("kind", ["mean", "max", "expectation"])
def test_advantages_of_discrete_actions(kind: Any, tmp_path: Path) -> None:
    algorithm = CRR(config(tmp_path, True, advantage_type=kind, n_action_sample=4000))
    algorithm.train()
    batch = algorithm.draw()
    probs, of_all = algorithm.probabilities_and_values(batch["obs"])
    taken = of_all[np.arange(32), batch["actions"]]
    expected = of_all.max(axis=1) if kind == "max" else (probs * of_all).sum(axis=1)
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(algorithm.advantages(batch), taken - expected, atol=0.05 if kind == "mean" else 1e-5)
    algorithm.stop()


@pytest.mark.parametrize("discrete", [False, True])
def test_targets_are_of_the_slower_copies_of_policy_and_critics(discrete: bool, tmp_path: Path) -> None:
    algorithm = CRR(config(tmp_path, discrete, target_update_grad_intervals=100, actor_lr=0.01))
    algorithm.train()
    batch = algorithm.draw()
    batch[DISCOUNTS] = np.full(32, 0.9, np.float32)
    draws, target = algorithm.draws.bit_generator.state, algorithm.target.vector
    found = algorithm.targets_of(batch)
    obs = batch["new_obs"]
    if discrete:
        probs, of_all = algorithm.probabilities_and_values(obs, target)
        values = (probs * of_all).sum(axis=1)
    else:
        algorithm.draws.bit_generator.state = draws
        actions = np.clip(algorithm.drawn_actions(obs, 1, target)[0], -1, 1)
        values = algorithm.values(obs, actions, target)[:, 0]
    np.testing.assert_allclose(found, batch["rewards"] + np.float32(0.9) * values, rtol=1e-5)
    assert not np.array_equal(algorithm.learner.weights, target)
    algorithm.stop()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"target_update_grad_intervals": 3}, [3, 6]),
        ({"target_network_update_freq": 33, "train_batch_size": 16}, [3, 6]),
        ({"target_network_update_freq": 32, "train_batch_size": 16}, [2, 4, 6]),
    ],
)
def test_the_slower_copy_follows_by_updates(settings: dict[str, Any], expected: list[int], tmp_path: Path) -> None:
    algorithm = CRR(config(tmp_path, **settings))
    moved = []
    for updates in range(1, 8):
        algorithm.updates = updates
        before = algorithm.target.vector.copy()
        algorithm.learner.vector += 1
        algorithm.follow()
        moved += [updates] if not np.array_equal(before, algorithm.target.vector) else []
    assert moved == expected
    algorithm.stop()


@pytest.mark.parametrize(
    ("discrete", "settings"),
    [(False, {}), (False, {"weight_type": "exp", "temperature": 0.3, "advantage_type": "max"}), (True, {})],
)
def test_it_imitates_what_was_better(discrete: bool, settings: dict[str, Any], tmp_path: Path) -> None:
    fast = {"actor_lr": 1e-2, "critic_lr": 1e-2, "training_intensity": 16.0, "target_update_grad_intervals": 1}
    made = config(tmp_path, discrete, **fast, **settings).reporting(min_sample_timesteps_per_iteration=800)
    algorithm = CRR(made)
    algorithm.train()
    found = [algorithm.compute_single_action(np.full(2, at, np.float32), explore=False) for at in (-0.8, 0.8)]
    if discrete:
        assert found == [0, 2]
    else:
        np.testing.assert_allclose(np.ravel(found), [-0.4, 0.4], atol=0.2)
    algorithm.stop()


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(discrete: bool, tmp_path: Path) -> None:
    settings = config(tmp_path, discrete)
    alone, two = CRR(settings), CRR(settings.copy(copy_frozen=False).env_runners(num_env_runners=2))
    weights_after(1, alone)
    path = alone.save(str(tmp_path / "kept"))
    expected = weights_after(2, alone)
    assert weights_after(3, two) == expected
    resumed = CRR(settings.copy(copy_frozen=False))
    resumed.restore(path)
    assert weights_after(2, resumed) == expected
    for algorithm in (alone, two, resumed):
        algorithm.stop()


def test_it_is_evaluated_in_a_simulator(tmp_path: Path) -> None:
    swings = {"input_": "kernel_rllib.experiments.swing_up_input.SwingUpInput", "input_config": {"episodes": 2}}
    made = config(tmp_path, td_error_loss_fn="huber", twin_q=False).offline_data(**swings)
    made.environment("Pendulum-v1", observation_space=None, action_space=None)
    algorithm = CRR(made.evaluation(evaluation_interval=1, evaluation_duration=1))
    result = algorithm.train()
    assert result["evaluation"]["episodes_this_iter"] == 1
    told = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert {"actor_loss", "critic_loss", "advantages_mean", "weights_mean", "weights_max"} <= set(told)
    algorithm.stop()


def test_without_settings_it_is_that_of_rllib() -> None:
    made = CRRConfig.from_dict(CRRConfig.default_dict("1.x"))
    expected: dict[str, Any] = {
        "weight_type": "bin", "temperature": 1.0, "max_weight": 20.0, "advantage_type": "mean", "n_action_sample": 4,
        "twin_q": True, "train_batch_size": 128, "target_update_grad_intervals": 100, "tau": 5e-3, "actor_lr": 3e-4,
        "critic_lr": 3e-4, "actor_hiddens": [256, 256], "critic_hiddens": [256, 256], "td_error_loss_fn": "mse",
    }  # fmt: skip
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"advantage_type": "expectation"}, "advantage_type='expectation' sums over all actions, and these are contin"),
        ({"weight_type": "linear"}, "weight_type is 'linear', but must be"),
        ({"categorical_distribution_temperature": 0.5}, "categorical_distribution_temperature=0.5 divides scores that"),
        ({"lr": 0.5}, "lr=0.5 has no effect on CRR, each network of which has a rate; set actor_lr"),
        ({"model": {"fcnet_hiddens": [4]}}, "fcnet_hiddens.* has no effect on CRR: give the layers to actor_hiddens"),
    ],
)
def test_what_it_does_not_take_is_refused(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        CRR(config(tmp_path, **wrong))
