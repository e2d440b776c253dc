"""The base of all kinds of lanes: seeds, names for messages, and a watch for episodes that never end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kernel_rllib.envs.moves import MOVES
from kernel_rllib.errors import EnvError

_log = logging.getLogger("kernel.rllib")

ENDLESS_STEPS = 20_000
"""After how many steps without the end of any episode a warning is due."""


def checked_seeds(seeds: Sequence[int | None], count: int) -> list[int | None]:
    """Return the seeds as Python's numbers. Raises EnvError unless there is one, at least 0, for each lane."""
    if len(seeds) != count:
        raise EnvError(
            f"reset() got {len(seeds)} seeds for {count} lanes: pass one for each lane, or None in its place"
        )
    for seed in seeds:
        if seed is not None and int(seed) < 0:
            raise EnvError(f"reset() got the seed {seed}: seeds are whole numbers of at least 0, or None")
    return [None if seed is None else int(seed) for seed in seeds]


def name_of(env: Any) -> str:
    """Return what an environment is called in messages: its innermost class."""
    return type(getattr(env, "unwrapped", env)).__name__


class EndlessWatch:
    """Warns, once, where no episode of any lane ends for a long time: nothing would be known of returns.

    owner: the environment's name. lanes: how many there are.
    """

    def __init__(self, owner: str, lanes: int) -> None:
        self._owner = owner
        self._lanes = lanes
        self._most = ENDLESS_STEPS
        self._since_end = 0

    def stepped(self) -> None:
        """Hear that all lanes did a step, and none of their episodes ended."""
        MOVES.count += 1
        self._since_end += 1
        if self._since_end == self._most:
            _log.warning(
                "%s: no episode of %d lanes has ended for %d steps. Have the environment return terminated, or set "
                "max_episode_steps (horizon): returns are only known of episodes that end",
                self._owner, self._lanes, self._most,
            )  # fmt: skip

    def ended(self) -> None:
        """Hear that an episode ended."""
        MOVES.count += 1
        self._since_end = 0
