"""QMIX and MADDPG in torch: the gradients that they have in numpy, and parameters that stay near while they learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_rllib.algorithms.maddpg import MADDPGConfig
from kernel_rllib.algorithms.qmix import QMIXConfig
from kernel_rllib.envs.games.two_step_game import TwoStepGame, grouped_two_step_game

SMALL = {"train_batch_size": 16, "num_steps_sampled_before_learning_starts": 16, "store_buffer_in_checkpoints": True}
QMIXES: dict[str, dict[str, Any]] = {
    "QMIX": {"mixing_embed_dim": 4},
    "QMIX without memory": {"recurrent": False},
    "VDN": {"mixer": "vdn"},
    "independent": {"mixer": None},
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    """Let torch compute in one thread: sums have the same order then."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def built(name: str, framework: str) -> Any:
    """Return an algorithm that learns in this framework; the first parameters and steps are the same in both."""
    if name == "MADDPG":
        config: Any = (
            MADDPGConfig()
            .environment(TwoStepGame)
            .multi_agent(policies=["first", "second"], policy_mapping_fn={0: "first", 1: "second"})
            .training(**SMALL, training_intensity=4, actor_hiddens=[8], critic_hiddens=[8])
        )
    else:
        config = QMIXConfig().environment(grouped_two_step_game)
        config.training(**SMALL, model={"lstm_cell_size": 8}, **QMIXES[name])
    config.env_runners(num_env_runners=0, num_envs=2, rollout_fragment_length=4).framework(framework)
    config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=32).debugging(seed=5)
    return config.build()


def weights_of(algorithm: Any) -> np.ndarray:
    """Return all parameters of all policies."""
    return np.concatenate([learner.weights for learner in algorithm.learners.values()])


@pytest.mark.parametrize("name", QMIXES)
def test_targets_and_gradients_of_groups_are_those_in_numpy(name: str) -> None:
    in_numpy, in_torch = built(name, "numpy"), built(name, "torch")
    assert isinstance(in_torch.learner.vector, torch.Tensor)
    in_numpy.learn([in_numpy.sample() for _ in range(1)])
    episodes = in_numpy.replay.sample(16, np.random.default_rng(1))
    targets, found = [], []
    for algorithm in (in_numpy, in_torch):
        backend = algorithm.learner.backend
        algorithm.learner.vector[...] = backend.vector(in_numpy.learner.weights)
        targets.append(algorithm.targets_of(episodes))
        _, gradient = algorithm.learner.gradient("q", episodes.batch(targets[0]))
        found.append(np.array(backend.to_numpy(gradient)))
    np.testing.assert_allclose(targets[1], targets[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-5)
    assert np.abs(found[0]).max() > 0.01


@pytest.mark.parametrize("name", [*QMIXES, "MADDPG"])
def test_parameters_stay_near_and_go_on_after_a_checkpoint(name: str, tmp_path: Path) -> None:
    in_numpy, in_torch = built(name, "numpy"), built(name, "torch")
    np.testing.assert_array_equal(weights_of(in_torch), weights_of(in_numpy))
    before = weights_of(in_numpy)
    in_numpy.train(), in_torch.train()
    assert np.abs(weights_of(in_numpy) - before).max() > 1e-3
    np.testing.assert_allclose(weights_of(in_torch), weights_of(in_numpy), atol=2e-3)
    resumed = built(name, "torch")
    resumed.restore(in_torch.save(str(tmp_path / "checkpoint")))
    in_torch.train(), resumed.train()
    np.testing.assert_array_equal(weights_of(resumed), weights_of(in_torch))
