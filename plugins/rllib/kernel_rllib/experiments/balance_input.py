"""Recorded experience of CartPole that is made where it is read: a controller that now and then does anything.

It costs a second. How often anything is done is another share in each episode, so that there are good episodes, bad
ones, and all between. The same seed gives the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.offline.episode_reader import EpisodeReader
from kernel_rllib.offline.io_context import IOContext


class BalanceInput(EpisodeReader):
    """Returns recorded episodes in any order, again and again.

    `input_config` says what is recorded: `episodes` (200), and `seed`, if another than that of the run.
    """

    def __init__(self, ioctx: IOContext) -> None:
        """Read what `input_config` says; it is made when it is first read."""
        super().__init__([Balances({"seed": ioctx.config["seed"] or 0, **ioctx.input_config})], ioctx)


class Balances:
    """The collection of what `balances` returns."""

    name = "BalanceInput"

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take the arguments of `balances`."""
        self._given = {"episodes": 200, **given}

    def __len__(self) -> int:
        """Return the number of episodes."""
        return int(self._given["episodes"])

    @cached_property
    def episodes(self) -> list[Batch]:
        """The episodes."""
        return balances(**self._given)

    def episode(self, number: int) -> Batch:
        """Return an episode, given its number from 0 on."""
        return self.episodes[number]

    def close(self) -> None:
        """Do nothing: there are no files."""


def balances(seed: int, episodes: int = 200) -> list[Batch]:
    """Return episodes of CartPole-v1, in the first of which nothing is random, and in the last of which everything is.

    Args:
        seed: The seed of everything.
        episodes: How many there are.
    """
    random, env, made = np.random.default_rng(seed), gymnasium.make("CartPole-v1"), []
    for number in range(episodes):
        share = number / max(episodes - 1, 1)
        obs, _ = env.reset(seed=int(random.integers(2**31)))
        rows: list[tuple[Any, ...]] = []
        ended = False
        while not ended:
            is_random = random.random() < share
            action = int(random.integers(2)) if is_random else balancing_push(obs)
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((obs, following, action, np.float32(reward), terminated, truncated, number))
            obs, ended = following, terminated or truncated
        names = (
            columns.OBS, columns.NEXT_OBS, columns.ACTIONS, columns.REWARDS, columns.TERMINATEDS, columns.TRUNCATEDS,
            columns.EPS_ID,
        )  # fmt: skip
        made.append(Batch(dict(zip(names, map(np.asarray, zip(*rows, strict=True)), strict=True))))
    env.close()
    return made


def balancing_push(obs: Any) -> int:
    """Return the push that balances: 1 to the right. `obs` is position, velocity, angle and angular velocity."""
    position, velocity, angle, turning = (float(number) for number in obs)
    return int(angle + 0.5 * turning + 0.05 * position + 0.1 * velocity > 0)
