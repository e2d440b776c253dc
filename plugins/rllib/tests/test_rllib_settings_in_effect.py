"""Settings that say how long, how patiently and with which environments is sampled: each has its effect."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.errors import ConfigError, RunnersLostError
from kernel_rllib.testing.counting import Counting
from kernel_rllib.training.system_usage import SystemUsage

import kernel


def config(env: Any = Counting, **env_config: Any) -> PPOConfig:
    """Return small settings."""
    made = PPOConfig().environment(env, env_config=env_config).env_runners(num_env_runners=0, num_envs=2)
    made.training(train_batch_size=32, minibatch_size=16, num_epochs=1, model={"fcnet_hiddens": [4]})
    return made.debugging(seed=0)


def test_episodes_are_cut_at_the_horizon() -> None:
    algorithm = config(length=50).update_from_dict({"horizon": 8}).build()
    fragment = algorithm.sample()
    assert fragment.columns["truncateds"].sum() == 4 and not fragment.columns["terminateds"].any()
    assert algorithm.train()["episode_len_mean"] == 8


def test_ends_count_as_cuts_where_that_is_asked_for() -> None:
    fragment = config(length=4).update_from_dict({"no_done_at_end": True}).build().sample()
    assert fragment.columns["truncateds"].sum() == 8 and not fragment.columns["terminateds"].any()


def test_a_soft_horizon_is_refused() -> None:
    with pytest.raises(ConfigError, match="no algorithm acts on soft_horizon"):
        config(length=50).update_from_dict({"horizon": 8, "soft_horizon": True}).build()


def test_an_iteration_learns_from_as_much_as_is_asked_for() -> None:
    result = config().reporting(min_train_timesteps_per_iteration=100).build().train()
    assert result["num_env_steps_trained"] == 128
    waiting = DQNConfig().environment(Counting).env_runners(num_env_runners=0)
    waiting.reporting(
        min_train_timesteps_per_iteration=100, min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0
    )
    assert waiting.build().train()["num_env_steps_trained"] == 0  # nothing is learned from yet


def test_the_use_of_the_machine_is_measured() -> None:
    assert 0 < config().build().train()["perf"]["ram_util_percent"] < 100
    assert "perf" not in config().debugging(log_sys_usage=False).build().train()


def test_usage_is_that_since_the_last_measurement(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu 10 0 0 90 0 0 0 0 0 0\ncpu0 1\n")
    usage = SystemUsage(str(tmp_path))
    (tmp_path / "stat").write_text("cpu 20 10 10 120 0 0 0 0 0 0\n")
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 250 kB\n")
    assert usage.measure() == {"cpu_util_percent": 50.0, "ram_util_percent": 75.0}
    assert SystemUsage(str(tmp_path / "missing")).measure() == {}


class Waits(Counting):
    """Waits in each step until a file is there."""

    def __init__(self, env_config: dict[str, Any]) -> None:
        super().__init__(env_config)
        self.file = env_config["file"]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait."""
        while not os.path.exists(self.file):
            time.sleep(0.01)
        return super().step(action)


@pytest.mark.usefixtures("session")
def test_runners_that_are_late_are_named_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "go"

    class Comes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            file.touch()

    made = config(Waits, file=str(file)).environment(disable_env_checking=True)
    algorithm = made.env_runners(num_env_runners=1, num_cpus_per_env_runner=0, sample_timeout_s=0.2).build()
    algorithm.runners.foreach(lambda runner: runner.index)  # they are made
    logger, handler = logging.getLogger("kernel.rllib"), Comes()
    logger.addHandler(handler)
    try:
        assert algorithm.train()["timesteps_total"] == 32
    finally:
        logger.removeHandler(handler)
    assert "runner 1 has not sampled its 16 steps within 0.2 s" in caplog.text
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_only_so_many_runners_are_replaced() -> None:
    made = config().env_runners(num_env_runners=1, num_cpus_per_env_runner=0)
    algorithm = made.fault_tolerance(max_num_env_runner_restarts=1).build()
    for _ in range(2):
        algorithm.train()
        kernel.kill(algorithm.runners.actors()[0][1])
        if algorithm.runners._losses.replaced == 0:
            assert algorithm.train()["timesteps_total"] == 64
    with pytest.raises(RunnersLostError, match="1 runners were replaced, and another one died"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize("newer", [True, False])
def test_either_stack_trains_and_reports_the_keys_of_both(newer: bool) -> None:
    made = config().api_stack(enable_rl_module_and_learner=newer, enable_env_runner_and_connector_v2=newer)
    result = made.build().train()
    assert result["episode_reward_mean"] == result["env_runners"]["episode_return_mean"] == 4
    assert result["episodes_total"] == result["env_runners"]["num_episodes_lifetime"] == 8
    older = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert older["policy_loss"] == result["learners"]["default_policy"]["policy_loss"]
    assert result["timesteps_total"] == result["num_env_steps_sampled_lifetime"] == 32
    assert sorted(result["hist_stats"]) == ["episode_lengths", "episode_reward"]
