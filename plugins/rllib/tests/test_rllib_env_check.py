"""An environment is looked at where an algorithm is built: one reset and one step of a copy of its own, no more."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.multi_agent import MultiAgentEnv
from kernel_rllib.errors import ConfigError, EnvError, SpaceError
from kernel_rllib.testing.counting import Counting


def config(env: Any, **settings: Any) -> PPOConfig:
    """Return small settings."""
    made = PPOConfig().environment(env, **settings).env_runners(num_env_runners=0, num_envs=2).debugging(seed=0)
    return made.training(train_batch_size=16, minibatch_size=16, num_epochs=1, model={"fcnet_hiddens": [4]})


class Pair(MultiAgentEnv):
    """Two agents, of whom the second observes what its space does not contain."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    seen = 2

    def __init__(self, env_config: dict[str, Any]) -> None:
        super().__init__()

    def reset(self, **_: Any) -> Any:
        return {"a": 0, "b": 0}, {}

    def step(self, action_dict: Any) -> Any:
        return {"a": 0, "b": self.seen}, {"a": 1.0, "b": 1.0}, {"__all__": True}, {"__all__": False}, {}


def spoilt(name: str, function: Any) -> type:
    """Return a class of environments of which one method is another."""
    return type("Maze", (Counting,), {name: function})


@pytest.mark.parametrize(
    ("env", "error", "said"),
    [
        (spoilt("reset", lambda self, **_: (np.zeros(3), {})), SpaceError,
         r"Maze.reset\(\) returned an array of shape \(3,\).*shape \(2,\)"),
        (spoilt("step", lambda self, action: (np.zeros(2), float("nan"), False, False, {})), EnvError,
         r"Maze.step\(\) returned nan as reward: return a finite number"),
        (spoilt("step", lambda self, action: (np.zeros(2), 1.0, "no", False, {})), EnvError,
         r"Maze.step\(\) returned 'no' \(str\) as terminated"),
        (spoilt("step", lambda self, action: [][1]), EnvError, r"Maze.step\(.*\) raised IndexError"),
        (Pair, EnvError, "Pair.step.*agent 'b'.*Discrete"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_training(env: type, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=f"(?s){said}.*disable_env_checking=True leaves that look out"):
        config(env).build()


def test_the_look_can_be_left_out() -> None:
    class Watched(Counting):
        steps = 0

        def step(self, action: Any) -> Any:
            type(self).steps += 1
            return super().step(action)

    config(Watched, disable_env_checking=True).build()
    assert Watched.steps == 0
    config(Watched).build()
    assert Watched.steps == 1
    Pair.seen = 1
    config(Pair).build()


def test_training_has_the_same_bits_with_and_without_it() -> None:
    class Shared(Counting):
        """Its space of actions is the class's."""

        space = spaces.Discrete(3, seed=5)

        def __init__(self, env_config: dict[str, Any]) -> None:
            super().__init__(env_config)
            self.action_space = self.space

    def weights(**settings: Any) -> bytes:
        algorithm = config(Shared, **settings).build()
        algorithm.train()
        return bytes(algorithm.learner.weights.tobytes())

    Shared.space.seed(5)
    first = weights(), int(Shared.space.sample())
    Shared.space.seed(5)
    assert (weights(disable_env_checking=True), int(Shared.space.sample())) == first


def test_an_environment_that_may_fail_is_not_refused_for_it(caplog: pytest.LogCaptureFixture) -> None:
    made = config(Counting, env_config={"fails_at": 1})
    with pytest.raises(EnvError, match=r"Counting.step\(.*\) raised"):
        made.build()
    with caplog.at_level(logging.WARNING, "kernel.rllib"):
        made.copy().fault_tolerance(restart_failed_sub_environments=True).build()
    assert "the environment failed before training, and will be made anew where it does" in caplog.text


def test_an_algorithm_may_demand_something_of_environments() -> None:
    class Long(PPO):
        @staticmethod
        def validate_env(env: Any, env_context: EnvContext) -> None:
            if env.length < env_context["least"]:
                raise ConfigError(f"episodes have {env.length} steps")

    with pytest.raises(ConfigError, match="episodes have 4 steps"):
        Long(config(Counting, env_config={"least": 5}))
    assert Long(config(Counting, env_config={"least": 4})).iteration == 0
