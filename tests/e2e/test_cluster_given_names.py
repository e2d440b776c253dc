"""Names that a program gives, of environments, trainables and preprocessors, on other nodes than its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import kernel_tune as tune
import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.registry import env_maker, register_env
from kernel_rllib.first_generation.catalog import ModelCatalog
from kernel_rllib.spaces.preprocessors import Preprocessor

import kernel
from kernel.testing import Cluster

pytestmark = pytest.mark.usefixtures("cluster")


class Five(gymnasium.Env[Any, Any]):
    """Episodes of five steps."""

    observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go on."""
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 5, False, {}


class Twice(Preprocessor):
    """Shows everything twice."""

    def _init_shape(self, obs_space: Any, options: Any) -> tuple[int, ...]:
        return (2,)

    def transform(self, observation: Any) -> Any:
        """Return it twice."""
        return np.concatenate([observation, observation])


def node() -> str:
    """Return the node that this is on."""
    return kernel.get_runtime_context().get_node_id()


def made_of(name: str) -> tuple[str, str]:
    """Return the class of an environment of a name, and the node that it was made on."""
    return type(env_maker(name)(EnvContext({}))).__name__, node()


def small(env: str) -> PPOConfig:
    """Return settings whose runners are on the node "b"."""
    made = PPOConfig().environment(env).debugging(seed=1)
    made.env_runners(num_env_runners=1, num_cpus_per_env_runner=0.5, custom_resources_per_env_runner={"b": 1})
    model = {"custom_preprocessor": "twice", "fcnet_hiddens": [4]}
    return made.training(train_batch_size=20, minibatch_size=20, num_epochs=1, model=model)


def test_a_runner_and_a_trial_elsewhere_find_what_was_named_here(tmp_path: Path) -> None:
    register_env("five", lambda config: Five())
    ModelCatalog.register_custom_preprocessor("twice", Twice)
    algorithm = small("five").build()
    (there,) = algorithm.runners.foreach(lambda runner: node())
    assert there != node()
    assert algorithm.train()["episode_reward_mean"] == 5
    algorithm.stop()
    analysis = tune.run(
        "PPO",
        config=small("five").env_runners(num_env_runners=0).to_dict(),
        stop={"training_iteration": 1},
        resources_per_trial={"cpu": 1, "custom_resources": {"c": 1}},
        local_dir=str(tmp_path),
        verbose=0,
    )
    assert analysis.trials[0].last_result["episode_reward_mean"] == 5


def test_a_function_that_was_named_here_is_run_elsewhere(tmp_path: Path) -> None:
    def tells(config: Any) -> None:
        tune.report(node=node())

    tune.register_trainable("tells", tells)
    resources = {"cpu": 1, "custom_resources": {"c": 1}}
    analysis = tune.run("tells", resources_per_trial=resources, local_dir=str(tmp_path), verbose=0)
    assert analysis.trials[0].last_result["node"] != node()


def test_what_was_named_elsewhere_is_found_here_and_on_nodes_that_come_later(cluster: Cluster) -> None:
    @kernel.remote(num_cpus=0, resources={"b": 1})
    def names() -> None:
        register_env("named elsewhere", lambda config: Five())

    kernel.get(names.remote())
    late = cluster.add_node(num_cpus=1, resources={"late": 1})
    kind, there = kernel.get(kernel.remote(num_cpus=0, resources={"late": 1})(made_of).remote("named elsewhere"))
    assert (kind, there != node()) == ("Five", True)
    assert made_of("named elsewhere") == ("Five", node())
    cluster.remove_node(late)
