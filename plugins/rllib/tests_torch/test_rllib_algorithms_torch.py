"""Algorithms that learn in torch: the numbers that they have in numpy, checkpoints that go from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.a3c import actor_critic_experience
from kernel_rllib.algorithms.cql import GAPS, CQLConfig
from kernel_rllib.algorithms.crr import CRRConfig
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.iql import TARGET_VALUES, IQLConfig
from kernel_rllib.algorithms.iqn import IQNConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.qrdqn import QRDQNConfig
from kernel_rllib.algorithms.replaying import ReplayingAlgorithm
from kernel_rllib.algorithms.sac import ENTROPIES, NOISE, SACConfig
from kernel_rllib.algorithms.simple_q import SimpleQConfig
from kernel_rllib.algorithms.td3 import TD3Config
from kernel_rllib.algorithms.tqc import TQCConfig
from kernel_rllib.algorithms.weighted_imitation import ACTION_WEIGHTS
from kernel_rllib.config.off_policy import OffPolicyConfig
from kernel_rllib.data import columns
from kernel_rllib.errors import NumericError

SMALL = {"model": {"fcnet_hiddens": [16, 8], "fcnet_activation": "tanh"}}
MEMORY = {"model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 8}}
ON_POLICY = {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1}
ACTOR_CRITIC = {"actor_hiddens": [8], "critic_hiddens": [8]}
ATOMS = {"num_atoms": 7, "v_min": 0.0, "v_max": 20.0}

EVERY: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "PPO": (PPOConfig, "CartPole-v1", {**SMALL, **ON_POLICY}),
    "PPO of continuous actions": (PPOConfig, "Pendulum-v1", {**SMALL, **ON_POLICY}),
    "PPO with memory": (PPOConfig, "CartPole-v1", {**MEMORY, **ON_POLICY}),
    "PG": (PGConfig, "CartPole-v1", {**SMALL, "train_batch_size": 32}),
    "A2C": (A2CConfig, "Pendulum-v1", {**SMALL, "train_batch_size": 32}),
    "SimpleQ": (SimpleQConfig, "CartPole-v1", SMALL),
    "DQN": (DQNConfig, "CartPole-v1", {**SMALL, "hiddens": [8], "n_step": 3}),
    "DQN without parts": (DQNConfig, "CartPole-v1", {**SMALL, "hiddens": [], "double_q": False, "dueling": False}),
    "distributional": (DQNConfig, "CartPole-v1", {**SMALL, **ATOMS, "hiddens": [8]}),
    "noisy": (DQNConfig, "CartPole-v1", {**SMALL, "hiddens": [8], "noisy": True}),
    "Rainbow": (DQNConfig, "CartPole-v1", {**SMALL, **ATOMS, "hiddens": [8], "noisy": True, "n_step": 3}),
    "QRDQN": (QRDQNConfig, "CartPole-v1", {**SMALL, "hiddens": [8], "num_quantiles": 7}),
    "QRDQN with noise": (
        QRDQNConfig,
        "CartPole-v1",
        {**SMALL, "hiddens": [8], "num_quantiles": 7, "noisy": True, "n_step": 3},
    ),
    "IQN": (IQNConfig, "CartPole-v1", {**SMALL, "hiddens": [8], "num_quantiles": 7, "noisy": True, "n_step": 3}),
    "SAC": (SACConfig, "Pendulum-v1", SMALL),
    "SAC of discrete actions": (SACConfig, "CartPole-v1", SMALL),
    "TQC": (TQCConfig, "Pendulum-v1", {**SMALL, "n_critics": 3}),
    "CRR": (CRRConfig, "Pendulum-v1", ACTOR_CRITIC),
    "CRR of discrete actions": (CRRConfig, "CartPole-v1", {**ACTOR_CRITIC, "advantage_type": "expectation"}),
    "IQL": (IQLConfig, "Pendulum-v1", SMALL),
    "IQL of discrete actions": (IQLConfig, "CartPole-v1", SMALL),
    "CQL": (CQLConfig, "Pendulum-v1", {**SMALL, "num_actions": 3, "lagrangian": True, "bc_iters": 1}),
    "CQL of discrete actions": (CQLConfig, "CartPole-v1", SMALL),
    "DDPG": (DDPGConfig, "Pendulum-v1", ACTOR_CRITIC),
    "TD3": (TD3Config, "Pendulum-v1", ACTOR_CRITIC),
}
every = pytest.mark.parametrize("name", EVERY)
replaying = pytest.mark.parametrize("name", [name for name in EVERY if issubclass(EVERY[name][0], OffPolicyConfig)])


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    """Let torch compute in one thread: sums have the same order then."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def built(name: str, framework: str, **more: Any) -> Any:
    """Return an algorithm that learns in this framework; the first parameters and steps are the same in both."""
    config, env, settings = EVERY[name]
    made = config().environment(env).framework(framework).debugging(seed=5).training(**{**settings, **more})
    made.env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=8)
    made.reporting(min_time_s_per_iteration=0)
    if isinstance(made, OffPolicyConfig):
        made.training(train_batch_size=16, num_steps_sampled_before_learning_starts=16, target_network_update_freq=16)
        made.training(store_buffer_in_checkpoints=True)
        made.reporting(min_sample_timesteps_per_iteration=32)
    return made.build()


def batch_of(algorithm: Any) -> Any:
    """Return what an algorithm would learn from first, with all columns that losses read."""
    if not isinstance(algorithm, ReplayingAlgorithm):
        fragments = [algorithm.sample() for _ in range(2)]
        if isinstance(algorithm.config, A2CConfig):
            return actor_critic_experience(algorithm.learner, fragments, algorithm.config)
        return next(iter(algorithm.experience(fragments).minibatches(32, np.random.default_rng(1), epochs=1)))
    for _ in range(3):
        algorithm.keep(algorithm.transitions.of(algorithm.sample()))
    batch = algorithm.draw()
    algorithm.prepare(batch)
    draws = np.random.default_rng(2)
    batch[ACTION_WEIGHTS] = draws.random(batch.count, np.float32)
    batch[TARGET_VALUES] = draws.standard_normal(batch.count, np.float32)
    batch[GAPS] = draws.standard_normal(batch.count, np.float32)
    batch[NOISE] = draws.standard_normal((batch.count, algorithm.distribution.noise.width), np.float32)
    batch[ENTROPIES] = draws.standard_normal(batch.count, np.float32)
    return batch


def gradients(algorithm: Any, batch: Any) -> Mapping[str, Any]:
    """Return the gradient of each objective for a batch, as the algorithm's backend computes it."""
    learner, module = algorithm.learner, algorithm.learner.module

    def of(loss: Callable[..., Any], trainable: Any) -> Any:
        _, gradient = learner.backend.gradient(
            lambda nn, parameters: loss(nn, module, parameters, batch), learner.vector, module.table, trainable
        )
        return learner.backend.to_numpy(gradient).copy()

    return {name: of(each.loss, each.trainable) for name, each in algorithm.make_objectives().items()}


@every
def test_gradients_of_equal_parameters_and_batches_are_equal(name: str) -> None:
    in_numpy, in_torch = built(name, "numpy"), built(name, "torch")
    assert isinstance(in_torch.learner.vector, torch.Tensor)
    np.testing.assert_array_equal(in_torch.learner.weights, in_numpy.learner.weights)
    batches = batch_of(in_numpy), batch_of(in_torch)
    for column in batches[0]:
        np.testing.assert_allclose(batches[1][column], batches[0][column], rtol=1e-5, atol=1e-5, err_msg=column)
    expected, found = gradients(in_numpy, batches[0]), gradients(in_torch, batches[0])
    assert found.keys() == expected.keys()
    for objective, gradient in expected.items():
        length = np.linalg.norm(gradient)
        assert length > 0
        np.testing.assert_allclose(found[objective] / length, gradient / length, rtol=1e-5, atol=1e-5)


@every
def test_updates_of_equal_batches_make_the_same_steps(name: str) -> None:
    clip = {"grad_clip": 0.01}  # bites at each of them
    in_numpy, in_torch = built(name, "numpy", **clip), built(name, "torch", **clip)
    batch, _ = batch_of(in_numpy), batch_of(in_torch)  # both draw the same noise
    began = in_numpy.learner.weights.copy()
    for algorithm in (in_numpy, in_torch):
        for _ in range(3):
            metrics = algorithm.learner.update(batch)
    moved = np.abs(in_numpy.learner.weights - began).max()
    np.testing.assert_allclose(in_torch.learner.weights, in_numpy.learner.weights, rtol=1e-5, atol=0.02 * moved)
    assert all(isinstance(value, (float, np.ndarray)) for value in metrics.values()), metrics


@every
def test_a_checkpoint_brings_back_the_bits(name: str, tmp_path: Path) -> None:
    first = built(name, "torch")
    first.train()
    saved = first.save(str(tmp_path))
    second = built(name, "torch")
    second.restore(saved)
    first.train(), second.train()
    assert second.learner.weights.tobytes() == first.learner.weights.tobytes()
    if isinstance(first, ReplayingAlgorithm):
        assert second.target.vector.numpy().tobytes() == first.target.vector.numpy().tobytes()


@every
@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_checkpoints_go_from_one_framework_to_the_other(name: str, to: str, tmp_path: Path) -> None:
    first, second = built(name, "torch" if to == "numpy" else "numpy"), built(name, to)
    first.train()
    second.restore(first.save(str(tmp_path)))
    assert second.learner.weights.tobytes() == first.learner.weights.tobytes()
    states = first.learner.state()["optimizers"], second.learner.state()["optimizers"]
    for objective, moments in states[0].items():
        for moment, values in moments.items():
            np.testing.assert_array_equal(states[1][objective][moment], values)
    if isinstance(first, ReplayingAlgorithm):
        backends = first.learner.backend, second.learner.backend
        targets = [own.to_numpy(each.target.vector) for own, each in zip(backends, (first, second), strict=True)]
        np.testing.assert_array_equal(*targets)
    second.train()
    assert second.learner.version > first.learner.version


@replaying
def test_the_slower_copy_follows(name: str) -> None:
    algorithm = built(name, "torch", tau=0.25)
    began = algorithm.target.vector.clone()
    algorithm.learner.vector += 1.0
    algorithm.env_steps_sampled = 16
    algorithm.follow()
    (place,) = algorithm.learner.module.table.mask(algorithm.followed)
    moved = torch.zeros_like(began)
    moved[place] = 0.25
    torch.testing.assert_close(algorithm.target.vector, began + moved)


def test_priorities_are_the_errors_that_torch_computes() -> None:
    algorithm = built("DQN", "torch")
    batch_of(algorithm)
    kept: dict[str, Any] = {}

    def update_priorities(places: Any, errors: Any) -> None:
        kept.update(places=places, errors=errors)

    algorithm.replay.update_priorities, before = update_priorities, algorithm.replay.update_priorities
    algorithm.learn_once()
    errors = np.array(kept["errors"])
    assert isinstance(kept["errors"], np.ndarray) and (errors != 0).all()
    before(kept["places"], errors)
    last = {place: abs(error) for place, error in zip(kept["places"].tolist(), errors.tolist(), strict=True)}
    held = algorithm.replay.state()["priorities"][list(last)]
    np.testing.assert_allclose(held, (np.array(list(last.values())) + 1e-6) ** 0.6, rtol=1e-6)


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC", "TD3"])
def test_a_gradient_that_is_not_finite_is_refused_and_changes_nothing(name: str) -> None:
    algorithm = built(name, "torch")
    batch = batch_of(algorithm)
    batch[columns.OBS] = np.full_like(batch[columns.OBS], np.nan)
    before = algorithm.learner.weights.copy()
    with pytest.raises(NumericError, match=r"its columns .*obs.* hold numbers that are not finite"):
        algorithm.learner.update(batch)
    assert algorithm.learner.weights.tobytes() == before.tobytes()
