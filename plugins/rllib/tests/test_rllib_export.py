"""Policies as files: a process that has numpy alone plays them as the algorithm does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.iqn import IQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.qrdqn import QRDQNConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.export.player import Policy

NARROW = {"fcnet_hiddens": [8, 8]}


def built(config: Any, env: str, **training: Any) -> Any:
    """Return an algorithm of small networks."""
    made = config.environment(env).env_runners(num_env_runners=0).debugging(seed=0)
    return made.training(**{"model": NARROW, **training}).build()


@pytest.mark.parametrize(
    ("config", "env", "training"),
    [
        (PPOConfig(), "CartPole-v1", {}),
        (PPOConfig(), "Pendulum-v1", {}),
        (PPOConfig(), "Pendulum-v1", {"model": {**NARROW, "free_log_std": True, "vf_share_layers": True}}),
        (DQNConfig(), "CartPole-v1", {}),
        (DQNConfig(), "CartPole-v1", {"num_atoms": 5, "v_min": 0, "v_max": 9, "hiddens": [8], "noisy": True}),
        (QRDQNConfig(), "CartPole-v1", {"num_quantiles": 5, "hiddens": [8]}),
        (IQNConfig(), "CartPole-v1", {"num_action_quantiles": 5, "risk_measure": "CVaR", "risk_eta": 0.5}),
        (SACConfig(), "Pendulum-v1", {}),
        (SACConfig(), "CartPole-v1", {}),
        (DDPGConfig(), "Pendulum-v1", {"model": {}, "actor_hiddens": [8, 8], "critic_hiddens": [8, 8]}),
    ],
)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_policy_plays_as_its_algorithm_does(tmp_path: Path, config: Any, env: str, training: Any, rows: int) -> None:
    algorithm = built(config.copy(), env, **training)
    algorithm.export_policy_model(str(tmp_path))
    policy = Policy(tmp_path)
    width = algorithm.spaces.observation.shape[0]
    obs = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
    expected = [algorithm.compute_single_action(row, explore=False) for row in np.clip(obs, -1, 1)]
    np.testing.assert_allclose(policy.actions(np.clip(obs, -1, 1)), expected, rtol=1e-5, atol=1e-5)


def test_numpy_is_all_that_it_needs(tmp_path: Path) -> None:
    algorithm = built(PPOConfig(), "CartPole-v1")
    algorithm.export_policy_model(str(tmp_path))
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from player import Policy; "
        "print(Policy(sys.argv[1]).actions([[0.1, 0.2, 0.3, 0.4]])[0], 'kernel_rllib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    action = algorithm.compute_single_action([0.1, 0.2, 0.3, 0.4], explore=False)
    assert said.stdout.split() == [str(action), "False"]


def test_what_can_not_be_exported_says_what_can(tmp_path: Path) -> None:
    algorithm = built(PPOConfig(), "CartPole-v1")
    with pytest.raises(ConfigError, match="there is no export to ONNX; leave onnx out"):
        algorithm.export_policy_model(str(tmp_path), onnx=11)
    with pytest.raises(
        ConfigError, match="no model here reads files of Keras. Read the file by h5py, and give the arr"
    ):
        algorithm.import_policy_model_from_h5("weights.h5")
    with pytest.raises(KeyError, match="there is no policy 'p1'"):
        algorithm.export_policy_model(str(tmp_path), policy_id="p1")
    remembers = built(PPOConfig(), "CartPole-v1", model={**NARROW, "use_lstm": True})
    with pytest.raises(ModuleError, match="a network that remembers can't be played by itself"):
        remembers.export_policy_model(str(tmp_path))
    algorithm.export_policy_model(str(tmp_path))
    with pytest.raises(ValueError, match=r"have the shape \[1, 3\], but must be \[N, 4\]"):
        Policy(tmp_path).actions([[1, 2, 3]])
