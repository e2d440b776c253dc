"""`get_global_worker`: the worker of this process, from anywhere in it."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from kernel_rllib.algorithms.ppo import PPO
from kernel_rllib.callbacks.callbacks import DefaultCallbacks
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import RLlibError
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.rollout_worker import RolloutWorker, get_global_worker

FEW = {"num_env_runners": 0, "train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1, "evaluation_interval": 1}
BOTH = {"policies": ["p0", "p1"], "policy_mapping_fn": lambda agent, *_, **__: f"p{agent}"}
KINDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one agent": ({"env": "CartPole-v1"}, ["default_policy"]),
    "several": ({"env": make_multi_agent("CartPole-v1"), "env_config": {"num_agents": 2}, **BOTH}, ["p0", "p1"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_callbacks_find_the_worker_that_calls_them(kind: str) -> None:
    settings, policies = KINDS[kind]
    seen: list[Any] = []

    class Watching(DefaultCallbacks):
        def on_episode_end(self, *, worker: Any, **more: Any) -> None:
            found = get_global_worker()
            seen.append((found is worker, sorted(found.policy_map), found.foreach_env(lambda env: 1)))

    algorithm = PPO({**FEW, **settings, "callbacks": Watching})
    algorithm.train()
    algorithm.stop()
    assert seen and all(each == (True, policies, [1]) for each in seen)


class Left(Policy):
    """Always goes left."""

    def compute_actions(self, obs_batch: Any, *state: Any, **more: Any) -> Any:
        return [0] * len(obs_batch), [], {}


def test_a_worker_of_ones_own_is_that_of_its_process_as_long_as_it_lives() -> None:
    worker = RolloutWorker(env_creator=lambda config: gymnasium.make("CartPole-v1"), policy=Left)
    assert get_global_worker() is worker
    del worker
    with pytest.raises(RLlibError, match=r"there is no worker in this process: .* in algorithm\.workers"):
        get_global_worker()
