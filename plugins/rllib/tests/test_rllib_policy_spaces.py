"""Environments of several agents that say nothing of spaces: those of the policies hold, as in 0.8.5."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.pg import PG
from kernel_rllib.envs.multi_agent import MultiAgentEnv
from kernel_rllib.errors import EnvError

CAR, LIGHT = spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-1, 1, (5,), np.float32)


class Traffic(MultiAgentEnv):
    """Two cars and a light, with the methods of 0.8.5, and without spaces."""

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.count = 0

    def _seen(self) -> dict[str, Any]:
        return {"car_0": np.zeros(3), "car_1": np.zeros(3), "light": np.zeros(5)}

    def reset(self) -> Any:
        self.count = 0
        return self._seen()

    def step(self, action_dict: dict[str, Any]) -> Any:
        assert set(action_dict) == {"car_0", "car_1", "light"} and action_dict["car_0"] < 2
        self.count += 1
        return self._seen(), dict.fromkeys(action_dict, 1.0), {"__all__": self.count == 5}, {}


def settings(mapping: Any) -> dict[str, Any]:
    """Return a dict of 0.8.5."""
    policies = {
        "one": (None, CAR, spaces.Discrete(2), {"gamma": 0.85}),
        "two": (None, CAR, spaces.Discrete(2), {"gamma": 0.99}),
        "light": (None, LIGHT, spaces.Discrete(3), {}),
    }
    return {
        "env": Traffic, "num_workers": 0, "train_batch_size": 20, "rollout_fragment_length": 20,
        "model": {"fcnet_hiddens": [4]}, "multiagent": {"policies": policies, "policy_mapping_fn": mapping},
    }  # fmt: skip


def test_agents_have_the_spaces_of_their_policies() -> None:
    result = PG(settings(lambda agent: "light" if agent == "light" else random.choice(["one", "two"]))).train()
    assert result["policy_reward_mean"]["light"] == 5.0


def test_a_policy_that_is_not_there_is_named() -> None:
    with pytest.raises(EnvError, match="policy_mapping_fn returned 'three' for agent 'car_0', and there are"):
        PG(settings(lambda agent: "three"))
