"""IQL: losses as the paper has them, the better actions are imitated, the same bits again and after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.iql import IQL, TARGET_VALUES, IQLConfig, expectile_loss
from kernel_rllib.algorithms.weighted_imitation import ACTION_WEIGHTS
from kernel_rllib.config.replay_config import PRIORITIZED
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import weighted_imitation as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.testing.training import weights_after

BOTH = pytest.mark.parametrize("discrete", [False, True], ids=["continuous", "discrete"])


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


def config(tmp_path: Path, discrete: bool = False, **training: Any) -> IQLConfig:
    """Return small settings that learn from recorded steps, in two lanes."""
    folder = str(tmp_path / "recorded")
    writer = JsonWriter(folder)
    for part in recorded(discrete).timeslices(50):
        writer.write(part)
    writer.close()
    actions: Any = spaces.Discrete(3) if discrete else spaces.Box(-1, 1, (1,))
    return (
        IQLConfig()
        .environment(observation_space=spaces.Box(-1, 1, (2,)), action_space=actions)
        .env_runners(num_envs=2, num_env_runners=0, num_cpus_per_env_runner=0)
        .offline_data(input_=folder)
        .training(**{
            "train_batch_size": 32, "model": {"fcnet_hiddens": [16]}, "training_intensity": 2.0, "tau": 0.1,
            "store_buffer_in_checkpoints": True, **training,
        })
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("expectile", [0.5, 0.8])
def test_the_loss_of_the_value_is_the_reference(dtype: Any, tolerance: float, expectile: float) -> None:
    hidden = HiddenLayers((5,), "tanh")
    module = ActorQCritics(3, 4, action_inputs=2, options=ActorQCriticsOptions(hidden, hidden, 2, None, value=hidden))
    random = np.random.default_rng(2)
    vector = (0.5 * random.normal(size=module.table.size)).astype(dtype)
    batch = Batch({name: random.normal(size=(8, 3)).astype(dtype) for name in ("obs",)})
    batch[TARGET_VALUES] = random.normal(size=8).astype(dtype)

    def expected(vector: Any) -> float:
        values = NumpyBackend().evaluate(lambda nn, p: module.state_values(nn, p, batch["obs"]), vector, module.table)
        return reference.expectile_loss(values, batch[TARGET_VALUES], expectile)

    metrics, gradient = NumpyBackend().gradient(
        lambda nn, p: expectile_loss(expectile)(nn, module, p, batch), vector, module.table, trainable=("value/",)
    )
    assert metrics["value_loss"] == pytest.approx(expected(vector.astype(np.float64)), rel=tolerance)
    slopes = numerical_gradient(expected, vector.astype(np.float64), step=1e-5)
    np.testing.assert_allclose(gradient, slopes, atol=max(tolerance, 1e-8) * 10)
    assert np.abs(slopes).max() > 0.01


@BOTH
def test_values_targets_and_weights_are_those_of_the_paper(discrete: bool, tmp_path: Path) -> None:
    algorithm = IQL(config(tmp_path, discrete, beta=3.0))
    algorithm.train()
    batch = algorithm.draw()
    batch[DISCOUNTS] = np.full(32, 0.9, np.float32)
    obs, actions, module = batch["obs"], batch["actions"], algorithm.module
    given = algorithm.learner.evaluate(
        lambda nn, p: module.q_values(nn, p, obs, nn.constant(actions)), algorithm.target.vector
    )
    lower = np.minimum(*given)
    lower = lower[np.arange(32), actions] if discrete else lower
    np.testing.assert_allclose(algorithm.target_values(batch), lower, rtol=1e-5)
    values = algorithm.learner.evaluate(lambda nn, p: module.state_values(nn, p, obs))
    expected = batch["rewards"] + 0.9 * values  # of observations after the steps, which are the same ones
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, rtol=1e-4, atol=1e-6)
    batch[TARGET_VALUES] = lower + np.where(np.arange(32) == 0, 1000, 0).astype(np.float32)
    told = algorithm.improve_policy(batch)
    advantages = np.minimum(batch[TARGET_VALUES] - values, 100).astype(np.float64)
    np.testing.assert_allclose(batch[ACTION_WEIGHTS], reference.weights_of(advantages, "exp", 1 / 3, 100.0), rtol=1e-4)
    assert told["weights_max"] == pytest.approx(100)
    algorithm.stop()


@BOTH
def test_it_imitates_what_was_better(discrete: bool, tmp_path: Path) -> None:
    fast = {"actor_lr": 1e-2, "critic_lr": 1e-2, "value_lr": 1e-2, "beta": 10.0, "training_intensity": 16.0}
    algorithm = IQL(config(tmp_path, discrete, **fast).reporting(min_sample_timesteps_per_iteration=800))
    algorithm.train()
    found = [algorithm.compute_single_action(np.full(2, at, np.float32), explore=False) for at in (-0.8, 0.8)]
    if discrete:
        assert found == [0, 2]
    else:
        np.testing.assert_allclose(np.ravel(found), [-0.4, 0.4], atol=0.2)
    algorithm.stop()


def test_a_higher_expectile_is_a_higher_value(tmp_path: Path) -> None:
    found = []
    for expectile in (0.5, 0.95):
        fast = {"critic_lr": 1e-2, "value_lr": 1e-2, "training_intensity": 16.0}
        made = config(tmp_path / str(expectile), True, expectile=expectile, **fast)
        algorithm = IQL(made.reporting(min_sample_timesteps_per_iteration=600))
        algorithm.train()
        found.append(float(algorithm.state_values(recorded(True)["obs"]).mean()))
        algorithm.stop()
    np.testing.assert_allclose(found, [1 / 3, 0.95 / (0.95 + 2 * 0.05)], atol=0.12)  # a third of actions earns 1


@BOTH
@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(discrete: bool, tmp_path: Path) -> None:
    settings = config(tmp_path, discrete, replay_buffer_config={"type": PRIORITIZED, "capacity": 300})
    alone, two = IQL(settings), IQL(settings.copy(copy_frozen=False).env_runners(num_env_runners=2))
    weights_after(1, alone)
    path = alone.save(str(tmp_path / "kept"))
    expected = weights_after(2, alone)
    assert weights_after(3, two) == expected
    resumed = IQL(settings.copy(copy_frozen=False))
    resumed.restore(path)
    assert weights_after(2, resumed) == expected
    assert resumed.updates == alone.updates > 6
    for algorithm in (alone, two, resumed):
        algorithm.stop()


def test_it_is_evaluated_in_a_simulator(tmp_path: Path) -> None:
    swings = {"input_": "kernel_rllib.experiments.swing_up_input.SwingUpInput", "input_config": {"episodes": 2}}
    made = config(tmp_path, twin_q=False).offline_data(**swings)
    made.environment("Pendulum-v1", observation_space=None, action_space=None)
    algorithm = IQL(made.evaluation(evaluation_interval=1, evaluation_duration=1))
    result = algorithm.train()
    assert result["evaluation"]["episodes_this_iter"] == 1
    told = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert {"actor_loss", "critic_loss", "value_loss", "mean_value", "advantages_mean", "weights_mean"} <= set(told)
    algorithm.stop()


def test_without_settings_it_is_that_of_rllib() -> None:
    made = IQLConfig()
    expected: dict[str, Any] = {
        "beta": 0.1, "expectile": 0.8, "actor_lr": 3e-4, "critic_lr": 3e-4, "value_lr": 3e-4, "twin_q": True,
        "tau": 1.0, "target_network_update_freq": 0, "train_batch_size": 2000,
    }  # fmt: skip
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"beta": 0.0}, "beta is 0.0, but must be a number above 0"),
        ({"expectile": 1.0}, "expectile=1.0 has no value that is finite; set it between 0 and 1, such as 0.8"),
        ({"expectile": 1.5}, "expectile is 1.5, but must be a number"),
        ({"lr": 0.5}, "lr=0.5 has no effect on IQL, each network of which has a rate; set actor_lr"),
    ],
)
def test_what_it_does_not_take_is_refused(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        IQL(config(tmp_path, **wrong))
