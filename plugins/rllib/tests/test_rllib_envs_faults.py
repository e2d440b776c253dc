"""Environments that fail: which lane it was, and how it, or all, begin anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from kernel_rllib.envs.actors import ActorsEnv
from kernel_rllib.envs.lane import restart_seed
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.processes import ProcessesEnv
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.testing.environments import Broken, Counter, Slow

TWO = np.ones(2, np.int64)
KINDS: dict[str, Callable[[Any], Any]] = {
    "loop": LoopEnv,
    "actors": ActorsEnv,
    "processes": partial(ProcessesEnv, num_processes=2),
    "processes in two parts": partial(ProcessesEnv, num_processes=2, num_parts=2),
}


def lanes(tmp_path: Path, how: str = "raise", **settings: Any) -> LoopEnv:
    marker = str(tmp_path / "marker")
    env = LoopEnv([Counter, lambda: Broken(2, marker, how)], **settings)
    env.reset([0, 5])
    return env


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "RuntimeError: the motor is stuck"),
        ("nan", "ValueError: it returned an observation that is, or has in it, NaN"),
        ("nan reward", "ValueError: it returned a reward that is, or has in it, NaN"),
    ],
)
def test_a_fault_ends_the_step(tmp_path: Path, how: str, words: str) -> None:
    env = lanes(tmp_path, how)
    env.step(TWO)
    with pytest.raises(EnvError) as caught:
        env.step(TWO)
    assert str(caught.value) == f"Broken.step() failed in lane 1, in step 2 of its episode: {words}"
    assert type(caught.value.__cause__).__name__ == words.split(":")[0]


@pytest.mark.parametrize("how", ["raise", "nan", "nan reward"])
def test_a_lane_begins_anew_alone(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    env = lanes(tmp_path, how, restart_failed=True)
    before = env.step(TWO)
    seen = before.obs.copy()
    step = env.step(TWO)
    assert list(step.faults) == [1] and step.void == (1,)
    assert caplog.messages == [f"{step.faults[1]}. The environment is made anew"]
    assert "in lane 1, in step 2 of its episode" in str(step.faults[1])
    assert step.rewards.tolist() == [1, 0]
    assert step.terminateds.tolist() == [False, False] and step.truncateds.tolist() == [False, True]
    np.testing.assert_array_equal(step.final_obs[1], seen[1])  # the last one before the step that did not happen
    assert step.obs[:, 0].tolist() == [2, 0]
    expected = LoopEnv([Counter]).reset([restart_seed(5, 1)])[0]
    np.testing.assert_array_equal(step.obs[1], expected)
    after = env.step(TWO)
    assert not after.faults and after.obs[:, 0].tolist() == [3, 1]


def test_a_lane_that_begins_anew_has_its_time_limit(tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    env = LoopEnv([lambda: TimeLimit(Broken(2, marker), 3)], restart_failed=True)
    env.reset([0])
    flags = [bool(env.step(TWO[:1]).truncateds[0]) for _ in range(8)]
    assert flags == [False, True, False, False, True, False, False, True]  # the first one is the fault


def test_the_restart_is_the_same_in_each_run(tmp_path: Path) -> None:
    runs = []
    for run in range(2):
        (tmp_path / str(run)).mkdir()
        env = lanes(tmp_path / str(run), restart_failed=True)
        runs.append([env.step(TWO).obs.tolist() for _ in range(5)])
    assert runs[0] == runs[1]
    assert restart_seed(None, 1) is None and restart_seed(5, 1) != restart_seed(5, 2)


def test_a_reset_that_fails_is_tried_with_a_new_environment(tmp_path: Path) -> None:
    made: list[int] = []

    class Stubborn(Counter):
        def __init__(self) -> None:
            super().__init__(length=1)
            made.append(1)

        def reset(self, **options: Any) -> Any:
            if len(made) == 1 and self.count:
                raise OSError("no port is free")
            return super().reset(**options)

    env = LoopEnv([Stubborn], restart_failed=True)
    env.reset([0])
    step = env.step(TWO[:1])
    assert step.terminateds[0] and len(made) == 2 and step.obs[0, 0] == 0 and not step.faults
    with pytest.raises(EnvError, match=r"^Stubborn.reset\(\) failed in lane 0, when an episode was to begin: OSErr"):
        made.clear()
        env = LoopEnv([Stubborn])
        env.reset([0])
        env.step(TWO[:1])


def test_what_can_not_be_made_anew_is_an_error() -> None:
    class Gone(Counter):
        def step(self, action: Any) -> Any:
            raise RuntimeError("first")

        def reset(self, **options: Any) -> Any:
            if self.actions:
                raise RuntimeError("second")
            return super().reset(**options)

    made: list[Gone] = []

    def make() -> Gone:
        made.append(Gone())
        made[-1].actions = ["x"] if len(made) > 1 else []
        return made[-1]

    env = LoopEnv([make], restart_failed=True)
    env.reset([0])
    with pytest.raises(EnvError) as caught:
        env.step(TWO[:1])
    assert "Gone in lane 0 could not be made anew in 3 attempts: RuntimeError: second" in str(caught.value)
    assert "RuntimeError: first" in str(caught.value) and len(made) == 4 and made[0].closed


def test_a_broken_contract_is_no_fault() -> None:
    class Wrong(Counter):
        def step(self, action: Any) -> Any:
            return np.zeros(3), 0.0, False, False, {}

    env = LoopEnv([Wrong], restart_failed=True)
    env.reset([0])
    with pytest.raises(SpaceError, match=r"^Wrong.step\(\) returned an array of shape \(3,\)"):
        env.step(TWO[:1])


def test_nan_can_be_let_through(tmp_path: Path) -> None:
    env = lanes(tmp_path, "nan", check_numbers=False)
    env.step(TWO)
    assert np.isnan(env.step(TWO).obs[1, 1])


def test_nan_in_a_first_observation_is_an_error() -> None:
    class Foggy(Counter):
        def seen(self) -> Any:
            return np.array([np.nan, 0])

    with pytest.raises(EnvError, match=r"^Foggy.reset\(\) returned an observation with NaN in it, in lane 0"):
        LoopEnv([Foggy]).reset([0])


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (None, r"returned None \(NoneType\) as reward in lane 0: return one number"),
        ("1", r"returned '1' \(str\) as reward in lane 0: return one number"),
        ([1, 2], "as reward in lane"),
    ],
)
def test_rewards_that_are_no_numbers(reward: Any, words: str) -> None:
    class Paying(Counter):
        def step(self, action: Any) -> Any:
            return self.seen(), reward, False, False, {}

    env = LoopEnv([Paying])
    env.reset([0])
    with pytest.raises(EnvError, match=words):
        env.step(TWO[:1])


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", KINDS)
def test_after_an_environment_has_raised_all_lanes_begin_anew(tmp_path: Path, kind: str) -> None:
    env = KINDS[kind]([lambda: Broken(2, str(tmp_path / "marker")), Counter, Counter, lambda: Slow(0.05)])
    env.reset([0] * 4)
    env.step(np.ones(4, np.int64))
    with pytest.raises(EnvError, match="failed in lane 0"):
        env.step(np.ones(4, np.int64))
    env.foreach(lambda inner: setattr(inner, "at", -1))
    env.reset([0] * 4)
    for count in (1, 2, 3):
        assert env.step(np.ones(4, np.int64)).obs[:, 0].tolist() == [count] * 4
    env.close()
