"""Rewards that are learned from: as environments give them, or bounded, as is usual for games with large scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array

Clip = bool | float | tuple[float, float] | None


def reward_clipper(clip: Clip, *, is_atari: bool = False) -> Callable[[Array], Array] | None:
    """Return the function from the environment's rewards [L] to the rewards of learning; None where they stay.

    The returns of episodes, as they are reported, are of the rewards of the environment in any case.

    Args:
        clip: True for their sign (-1, 0 or 1), a number for its bounds on both sides, a pair for the lower and the
            upper bound, False for none, None for their sign in games of Atari only.
        is_atari: Whether the environment is such a game.
    """
    if clip is None:
        clip = is_atari
    if isinstance(clip, bool):
        return _signs if clip else None
    low, high = clip if isinstance(clip, (tuple, list)) else (-clip, clip)
    return partial(_bounded, low, high)


def _signs(rewards: Array) -> Array:
    found: Array = np.sign(rewards)
    return found


def _bounded(low: float, high: float, rewards: Array) -> Array:
    found: Array = np.clip(rewards, low, high)
    return found


def is_atari_name(env: Any) -> bool:
    """Return whether an environment is a game of Atari, by its name: `ALE/Pong-v5`, `PongNoFrameskip-v4`."""
    name = env if isinstance(env, str) else ""
    return name.startswith("ALE/") or "NoFrameskip-v" in name or name.partition("-v")[0].endswith("Deterministic")
