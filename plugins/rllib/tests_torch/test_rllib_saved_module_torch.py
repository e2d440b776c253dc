"""A module of a checkpoint acts on tensors of torch as on arrays, whichever library learned it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.training.algorithm import Algorithm


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_tensors_give_tensors(tmp_path: Path, framework: str) -> None:
    made = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).framework(framework)
    made.training(train_batch_size=64, minibatch_size=32, num_epochs=1, model={"fcnet_hiddens": [8]})
    algorithm = made.debugging(seed=0).build()
    algorithm.train()
    path = algorithm.save(str(tmp_path))
    module = SavedModule.from_checkpoint(path, "default_policy")
    assert isinstance(module, SavedModule)
    obs = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"]
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), module.forward_inference({"obs": obs})["action_dist_inputs"])
    again = Algorithm.from_checkpoint(path, trust=True)
    assert again.train()["hist_stats"] == algorithm.train()["hist_stats"]
    assert again.learner.weights.tobytes() == algorithm.learner.weights.tobytes()
