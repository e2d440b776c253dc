"""Each algorithm with several policies: what it counts, that each policy learns and goes on, or which error says no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.apex_dqn import ApexDQNConfig
from kernel_rllib.algorithms.ars import ARSConfig
from kernel_rllib.algorithms.cql import CQLConfig
from kernel_rllib.algorithms.crr import CRRConfig
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.iql import IQLConfig
from kernel_rllib.algorithms.iqn import IQNConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.qrdqn import QRDQNConfig
from kernel_rllib.algorithms.r2d2 import R2D2Config
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.algorithms.simple_q import SimpleQConfig
from kernel_rllib.algorithms.td3 import TD3Config
from kernel_rllib.algorithms.tqc import TQCConfig
from kernel_rllib.envs.games.pendulum import Pendulum
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.testing.counting import Counting

REPLAYING = {
    "train_batch_size": 8,
    "num_steps_sampled_before_learning_starts": 8,
    "training_intensity": 1,
    "store_buffer_in_checkpoints": True,
}
AT_ONCE = {"num_replay_buffer_shards": 0, "max_weight_sync_delay": 1}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "A2C": (A2CConfig, Counting, {"train_batch_size": 32}),
    "PG": (PGConfig, Counting, {"train_batch_size": 32}),
    "SimpleQ": (SimpleQConfig, Counting, REPLAYING),
    "DQN": (DQNConfig, Counting, {**REPLAYING, "hiddens": [8]}),
    "QRDQN": (QRDQNConfig, Counting, {**REPLAYING, "hiddens": [8], "num_quantiles": 4}),
    "IQN": (IQNConfig, Counting, {**REPLAYING, "hiddens": [8], "num_quantiles": 4}),
    "ApexDQN": (ApexDQNConfig, Counting, {**REPLAYING, "hiddens": [8], "optimizer": AT_ONCE}),
    "R2D2": (R2D2Config, Counting, {**REPLAYING, "hiddens": [8]}),
    "SAC": (SACConfig, Counting, REPLAYING),
    "TQC": (TQCConfig, Pendulum, REPLAYING),
    "CRR": (CRRConfig, Pendulum, {**REPLAYING, "actor_hiddens": [8], "critic_hiddens": [8]}),
    "IQL": (IQLConfig, Pendulum, REPLAYING),
    "CQL": (CQLConfig, Pendulum, {**REPLAYING, "num_actions": 2}),
    "DDPG": (DDPGConfig, Pendulum, {**REPLAYING, "actor_hiddens": [8], "critic_hiddens": [8]}),
    "TD3": (TD3Config, Pendulum, {**REPLAYING, "actor_hiddens": [8], "critic_hiddens": [8]}),
}


def small(config: Any, env: Any, training: dict[str, Any], count_steps_by: str = "env_steps") -> Any:
    """Return small settings of two agents that act at the same time, with a policy each."""
    return (
        config()
        .environment(make_multi_agent(env), env_config={"num_agents": 2})
        .env_runners(num_envs=2, num_env_runners=0, num_cpus_per_env_runner=0)
        .multi_agent(
            policies=["p0", "p1"],
            policy_mapping_fn=lambda agent, *_, **__: f"p{agent}",
            count_steps_by=count_steps_by,
        )
        .training(**training if "actor_hiddens" in training else {**training, "model": {"fcnet_hiddens": [8]}})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=16)
        .debugging(seed=3)
    )


def weights_of(algorithm: Any) -> dict[str, bytes]:
    """Return all parameters by policy."""
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_policy_learns_and_goes_on_after_a_checkpoint(kind: str, tmp_path: Path) -> None:
    settings = small(*KINDS[kind])
    straight = settings.build()
    before = weights_of(straight)
    result = straight.train()
    after = weights_of(straight)
    assert set(result["learners"]) == {"p0", "p1"}
    assert all(after[name] != before[name] for name in ("p0", "p1"))
    assert result["num_agent_steps_sampled"] == 2 * result["num_env_steps_sampled"]
    steps = result["env_runners"]["num_module_steps_sampled_lifetime"]
    assert steps["p0"] == steps["p1"]
    assert abs(steps["p0"] - result["num_env_steps_sampled"]) <= 2  # the last step of each copy may not be over
    assert result["num_env_steps_trained"] > 0
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed = settings.copy(copy_frozen=False).build()
    resumed.restore(path)
    straight.train(), resumed.train()
    assert weights_of(resumed) == weights_of(straight)


@pytest.mark.parametrize(("kind", "by_env_steps", "by_agent_steps"), [("A2C", 40, 20), ("PG", 32, 16)])
def test_a_train_batch_is_counted_as_it_is_said(kind: str, by_env_steps: int, by_agent_steps: int) -> None:
    """A round of A2C has 5 steps of 2 copies; one of PG whole episodes with 5 steps at least, 2 of 4 in each copy."""
    for count_steps_by, expected in (("env_steps", by_env_steps), ("agent_steps", by_agent_steps)):
        made = small(*KINDS[kind], count_steps_by).env_runners(rollout_fragment_length=5)
        made._validate_config = False  # 5 steps are no part of the batch
        result = made.reporting(min_sample_timesteps_per_iteration=0).build().train()
        assert result["num_env_steps_sampled"] == expected
        assert result["num_agent_steps_sampled"] == 2 * expected


@pytest.mark.parametrize("config", [A3CConfig, DDPPOConfig, ESConfig, ARSConfig])
def test_algorithms_of_one_policy_refuse_several(config: Any) -> None:
    settings = small(config, Counting, {}).env_runners(num_env_runners=1)
    with pytest.raises(ConfigError, match="Config learns one policy, and p0, p1 are named: take PPO, DQN or SAC"):
        settings.build()
    shared = settings.copy(copy_frozen=False).multi_agent(policies=None, policy_mapping_fn=None)
    with pytest.raises(ConfigError, match="the environment has several"):
        shared.build()


def test_agents_are_not_replayed_together() -> None:
    settings = small(*KINDS["DQN"]).training(replay_buffer_config={"replay_mode": "lockstep"})
    with pytest.raises(ConfigError, match="replay_mode is 'lockstep', and each policy has a buffer of its own"):
        settings.build()


def test_settings_that_nothing_acts_on_are_refused_with_what_to_do_instead() -> None:
    settings = small(*KINDS["PG"]).multi_agent(observation_fn=lambda agent_obs, **_: agent_obs)
    with pytest.raises(ConfigError, match="acts on observation_fn yet.* the environment can return"):
        settings.build()
