"""A warning where no episode ends, whichever way lanes are stepped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs import lanes
from kernel_rllib.envs.foreign_vectors import EnvPoolVector, GymnasiumVector
from kernel_rllib.envs.games.corridor import CorridorGame
from kernel_rllib.envs.lanes import EndlessWatch
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.multi_agent import CopiesAsAgents
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.envs.processes import ProcessesEnv
from kernel_rllib.envs.vector_base import UserVector, VectorEnvBase
from kernel_rllib.testing.environments import Counter, counters


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(lanes, "ENDLESS_STEPS", 3)
    caplog.set_level(logging.WARNING, "kernel.rllib")


def test_it_warns_once_after_so_many_steps_without_an_end(caplog: pytest.LogCaptureFixture) -> None:
    watch = EndlessWatch("Maze", lanes=4)
    for _ in range(2):
        watch.stepped()
    watch.ended()
    for _ in range(2):
        watch.stepped()
    assert not caplog.messages
    for _ in range(5):
        watch.stepped()
    (said,) = caplog.messages
    assert said.startswith("Maze: no episode of 4 lanes has ended for 3 steps. Have the environment return terminated")


class Written(VectorEnvBase):
    """A vector of two counters."""

    def __init__(self, length: int) -> None:
        super().__init__(spaces.Box(-9, 99, (1,)), spaces.Discrete(2), 2)
        self.count, self.length = 0, length

    def vector_reset(self) -> Any:
        return [[0], [0]]

    def reset_at(self, index: int) -> Any:
        return [0]

    def vector_step(self, actions: list[Any]) -> Any:
        self.count += 1
        return [[0], [0]], [0, 0], [self.count % self.length == 0] * 2, [{}, {}]


class Pool:
    """An EnvPool of two counters."""

    config = {"num_envs": 2, "batch_size": 2}
    observation_space = spaces.Box(0, 99, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.count, self.length = 0, length

    def reset(self, ids: Any = None) -> Any:
        ids = np.arange(2) if ids is None else ids
        return np.zeros((len(ids), 1), np.float32), {"env_id": ids}

    def step(self, actions: Any) -> Any:
        self.count += 1
        obs, infos = self.reset()
        return obs, np.zeros(2), np.full(2, self.count % self.length == 0), np.zeros(2, bool), infos


def vector_of_gymnasium(length: int) -> Any:
    return gymnasium.vector.SyncVectorEnv([lambda: Counter(length)] * 2)


KINDS: dict[str, Callable[[int], Any]] = {
    "loop": lambda length: LoopEnv(counters(2, length=length)),
    "native": lambda length: NativeEnv(CorridorGame({"max_episode_steps": length}), 2),
    "processes": lambda length: ProcessesEnv(counters(2, length=length), num_processes=1),
    "gymnasium": lambda length: GymnasiumVector(vector_of_gymnasium(length)),
    "envpool": lambda length: EnvPoolVector(Pool(length)),
    "written": lambda length: UserVector(Written(length)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_lanes_is_watched(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    for length, warnings in ((2, 0), (100, 1)):
        env = KINDS[kind](length)
        try:
            env.reset([None, None])
            for _ in range(7):
                env.step(np.zeros(2, np.int64))
            assert sum("no episode of 2 lanes has ended for 3 steps" in said for said in caplog.messages) == warnings
        finally:
            if kind != "envpool":
                env.close()


def test_copies_of_several_agents_are_watched(caplog: pytest.LogCaptureFixture) -> None:
    class Copies(CopiesAsAgents):
        maker = staticmethod(lambda config: Counter(config["length"]))

    for length, warnings in ((2, 0), (100, 1)):
        loop = MultiAgentLoop([lambda length=length: Copies({"length": length})])  # type: ignore[misc]
        loop.reset([0])
        for _ in range(7):
            loop.step([{0: 0}])
        assert len(caplog.messages) == warnings
