"""What algorithms of one's own may override: the class of policies, and how lost workers are restored."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.building import build_trainer
from kernel_rllib.first_generation.policy import Policy

FEW = {
    "env": "CartPole-v1",
    "train_batch_size": 32,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_cpus_per_env_runner": 0,
}


class Left(Policy):
    """Always goes left."""

    def compute_actions(self, obs_batch: Any, *state: Any, **more: Any) -> Any:
        return [0] * len(obs_batch), [], {}

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        return {}


class Right(Left):
    """Always goes right."""

    def compute_actions(self, obs_batch: Any, *state: Any, **more: Any) -> Any:
        return [1] * len(obs_batch), [], {}


def test_a_trainer_may_choose_the_class_of_its_policies_by_its_settings() -> None:
    class Chooses(build_trainer(name="Chooses", default_policy=Left)):  # type: ignore[misc]
        @classmethod
        def get_default_policy_class(cls, config: Any) -> type | None:
            return Right if config["gamma"] < 0.5 else None

    for gamma, chosen in ((0.1, Right), (0.9, Left)):
        made = Chooses({"env": "CartPole-v1", "num_workers": 0, "train_batch_size": 20, "gamma": gamma})
        assert type(made.get_policy()) is chosen
        made.train()


def test_an_algorithm_with_a_loss_refuses_a_class_of_policies() -> None:
    assert PPO.get_default_policy_class(PPOConfig()) is None

    class Chooses(PPO):
        @classmethod
        def get_default_policy_class(cls, config: Any) -> type | None:
            return Left

    with pytest.raises(
        ConfigError,
        match=r"Chooses\.get_default_policy_class\(\) returned Left, but PPO learns by its own loss: return N",
    ):
        Chooses({**FEW, "num_env_runners": 0})


@pytest.mark.usefixtures("session")
def test_workers_that_died_are_restored_where_that_is_asked_for() -> None:
    class Restores(PPO):
        healthy: tuple[int, ...] = ()

        def restore_workers(self, workers: Any) -> None:
            before = self.runners.foreach(_process)
            os.kill(before[0], signal.SIGKILL)
            super().restore_workers(workers)
            self.healthy = (len(before), *(process for process in self.runners.foreach(_process)))
            assert self.healthy[1] != before[0]

    algorithm = Restores({**FEW, "num_env_runners": 1, "restart_failed_env_runners": True})
    algorithm.train()
    assert len(algorithm.healthy) == 2 and algorithm.runners.take_replaced() == []
    algorithm.stop()


def _process(runner: Any) -> int:
    return os.getpid()
