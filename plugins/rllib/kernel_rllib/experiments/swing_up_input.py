"""Recorded experience of Pendulum that is made where it is read: a controller that swings it up, and random actions.

It costs a second, where that of a policy costs its training. The same seed gives the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.pendulum import Pendulum
from kernel_rllib.offline.episode_reader import EpisodeReader
from kernel_rllib.offline.io_context import IOContext

_TOP = 5.0
"""The energy of the pendulum where it stands upright: m g l / 2."""


class SwingUpInput(EpisodeReader):
    """Returns recorded episodes in any order, again and again.

    `input_config` says what is recorded: `episodes` (50) of 200 steps; `skill` (0.5), the share of them in which the
    controller acts, with random torques in the others; `noise` (0.5), the deviation of what is added to
    its torques, of 2 at most; `seed`, if another than that of the run.
    """

    def __init__(self, ioctx: IOContext) -> None:
        """Read what `input_config` says; it is made when it is first read."""
        super().__init__([Swings({"seed": ioctx.config["seed"] or 0, **ioctx.input_config})], ioctx)


class Swings:
    """The collection of what `swing_ups` returns."""

    name = "SwingUpInput"

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take the arguments of `swing_ups`."""
        self._given = {"episodes": 50, **given}

    def __len__(self) -> int:
        """Return the number of episodes."""
        return int(self._given["episodes"])

    @cached_property
    def episodes(self) -> list[Batch]:
        """The episodes."""
        return swing_ups(**self._given)

    def episode(self, number: int) -> Batch:
        """Return an episode, given its number from 0 on."""
        return self.episodes[number]

    def close(self) -> None:
        """Do nothing: there are no files."""


def swing_ups(seed: int, episodes: int = 50, skill: float = 0.5, noise: float = 0.5) -> list[Batch]:
    """Return episodes of Pendulum, of 200 steps each.

    Args:
        seed: The seed of everything.
        episodes: How many there are.
        skill: The share in which the controller acts; in the others torques are random.
        noise: The standard deviation of what is added to the torques of the controller.
    """
    random, env = np.random.default_rng(seed), Pendulum()
    made = []
    for number in range(episodes):
        controls = number < skill * episodes
        obs, _ = env.reset(seed=int(random.integers(2**31)))
        rows: list[tuple[Any, ...]] = []
        for step in range(200):
            torque = random.uniform(-2, 2)
            if controls:
                torque = swing_up_torque(obs) + noise * random.standard_normal()
            action = np.array([np.clip(torque, -2, 2)], np.float32)
            following, reward, terminated, _, _ = env.step(action)
            rows.append((obs, following, action, reward, terminated, step == 199, number))
            obs = following
        names = (
            columns.OBS, columns.NEXT_OBS, columns.ACTIONS, columns.REWARDS, columns.TERMINATEDS, columns.TRUNCATEDS,
            columns.EPS_ID,
        )  # fmt: skip
        made.append(Batch(dict(zip(names, map(np.asarray, zip(*rows, strict=True)), strict=True))))
    return made


def swing_up_torque(obs: Array) -> float:
    """Return a torque that swings the pendulum up, and holds it there (Astrom and Furuta 2000): by its energy.

    Args:
        obs: The cosine and the sine of the angle, 0 where it is upright, and the angular velocity.
    """
    cosine, sine, speed = (float(number) for number in obs)
    if cosine > 0.9:
        return -8.0 * math.atan2(sine, cosine) - 1.5 * speed
    missing = _TOP - (speed**2 / 6 + _TOP * cosine)
    push = missing * speed
    return math.copysign(min(abs(push), 2.0), push if speed else 1.0)
