"""Copies of environments that go on bit by bit, and the trial that tells which do."""

from __future__ import annotations

import pickle
import random
import sys
import types
import zlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.envs import snapshots
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.games.cart_pole import CartPoleGame
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.envs.snapshots import copy_trial
from kernel_rllib.errors import EnvError
from kernel_rllib.testing.environments import Counter, Nested

NAMES = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "FrozenLake-v1",
         "Taxi-v3", "CliffWalking-v0"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_environments_of_gymnasium_are_copied(name: str) -> None:
    assert copy_trial(lambda: LoopEnv([lambda: env_maker(name)(EnvContext())])) == ""


def test_the_trial_sees_episodes_end_and_begin() -> None:
    assert copy_trial(lambda: LoopEnv([lambda: Counter(3)])) == ""
    assert copy_trial(lambda: LoopEnv([Nested] * 2)) == ""
    assert copy_trial(lambda: NativeEnv(CartPoleGame(), 3)) == ""


class Forgetful(Counter):
    """Copies of it begin with a count of their own."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.count = 0


class Global(Counter):
    """Draws from a generator that all share."""

    def seen(self) -> Any:
        return np.array([self.count, random.random()], np.float32)


class AtReset(Counter):
    """Copies of it begin the next episode otherwise."""

    offset = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "offset": self.offset + 5}

    def reset(self, **options: Any) -> Any:
        obs, info = super().reset(**options)
        return obs + np.float32(self.offset), info


class Locked(Counter):
    """Has something that can't be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = (line for line in "ab")


class Paying(Forgetful):
    """Copies of it see the same, and pay something else."""

    def step(self, action: Any) -> Any:
        _, _, *rest = super().step(action)
        return np.zeros(2, np.float32), float(self.count), *rest


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Forgetful, "obs of a copy differed from the original's 1 steps after it was made"),
        (Global, "obs of a copy differed from the original's 1 steps after it was made"),
        (Paying, "rewards of a copy differed"),
        (lambda: AtReset(length=1000), "the next episode of a copy began as another than the original's"),
        (Locked, "Locked can't be copied: TypeError: cannot pickle 'generator' object"),
    ],
)
def test_wrong_copies_are_found_out(env: Any, words: str) -> None:
    assert copy_trial(lambda: LoopEnv([env])).startswith(words)


def test_what_can_not_be_pickled_is_an_error_with_a_way_out() -> None:
    env = LoopEnv([Locked])
    env.reset([0])
    with pytest.raises(EnvError, match="leave out what can't be pickled, or use recovery=.recreate."):
        env.snapshot(0)


def test_a_snapshot_holds_the_limit_the_seed_and_the_place() -> None:
    first = LoopEnv([lambda: gymnasium.wrappers.TimeLimit(Counter(99), 6)] * 2)
    second = LoopEnv([lambda: gymnasium.wrappers.TimeLimit(Counter(99), 6)])
    first.reset([1, 2])
    for _ in range(4):
        first.step(np.array([1, 1]))
    second.restore(0, first.snapshot(1))
    assert not second.step(np.array([1])).truncateds[0]
    step = second.step(np.array([1]))
    assert step.truncateds[0] and step.final_obs[0][0] == 6


def test_snapshots_of_other_releases_are_refused() -> None:
    data = zlib.compress(pickle.dumps((99, "pickle", b"", None)))
    with pytest.raises(EnvError, match="^the snapshot of an environment has format 99, and this release reads 1"):
        snapshots.restored(data, Counter)


# -- adapters, with stand-ins for what they adapt (tests_envs has the real ones) --------------------------------------


class Data:
    """Stands for MuJoCo's data: pickled whole, with its model."""

    def __init__(self) -> None:
        self.model = {"gravity": -9.81}
        self.time = 0.0


Data.__module__ = "mujoco._structs"


class Simulated(gymnasium.Env[Any, Any]):
    """An environment whose pickle is one made anew, as those of gymnasium for MuJoCo are."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.data = Data.__new__(Data)
        Data.__init__(self.data)
        self.model = self.data.model
        self.pushes = 0

    def __reduce__(self) -> Any:
        return type(self), ()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.data.time, self.pushes = 0.0, 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.data.time += 0.1
        self.pushes += int(action)
        return self.seen(), float(self.pushes), False, False, {}

    def seen(self) -> Any:
        return np.array([self.data.time, self.np_random.random()])


def test_simulations_are_copied_by_their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    package, module = types.ModuleType("mujoco"), types.ModuleType("mujoco._structs")
    module.Data = Data  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mujoco", package)
    monkeypatch.setitem(sys.modules, "mujoco._structs", module)
    assert copy_trial(lambda: LoopEnv([lambda: gymnasium.wrappers.TimeLimit(Simulated(), 15)])) == ""
    monkeypatch.setattr(snapshots, "_KEEPERS", snapshots._KEEPERS[2:])
    assert "differed" in copy_trial(lambda: LoopEnv([Simulated]))


class Console:
    """Stands for the interface of the Arcade Learning Environment."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.last = 0

    def __reduce__(self) -> Any:
        raise TypeError("a console can't be pickled")

    def getFloat(self, name: str) -> float:
        return {"repeat_action_probability": 0.25}[name]

    def act(self, action: int) -> float:
        if self.generator.random() > 0.25:
            self.last = action
        return float(self.last)

    def cloneState(self, include_rng: bool = False) -> Any:
        assert include_rng
        return self.generator.bit_generator.state

    def restoreState(self, state: Any) -> None:
        self.generator.bit_generator.state = state

    cloneSystemState = cloneState


class Arcade(Counter):
    """A game on a console."""

    def __init__(self) -> None:
        super().__init__(length=8)
        self.ale = Console()

    def step(self, action: Any) -> Any:
        _, _, *rest = super().step(action)
        return self.seen(), self.ale.act(int(action)), *rest

    def seen(self) -> Any:
        return np.array([self.count, self.ale.generator.random()], np.float32)


def test_consoles_are_copied_by_their_state() -> None:
    assert copy_trial(lambda: LoopEnv([Arcade])) == ""
