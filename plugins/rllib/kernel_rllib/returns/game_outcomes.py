"""What steps turned out to be worth: rewards until the end of their episode, without a discount."""

from __future__ import annotations

import numpy as np

from kernel_rllib.arrays import Array


def rewards_to_go(rewards: Array, ends: Array, *, players: int = 1) -> Array:
    """Return the sum of the rewards from each step to the end of its episode [T, L], float64.

    Args:
        rewards: The reward of each step [T, L], from the view of who acted.
        ends: Where an episode ended [T, L].
        players: 1, or 2 who take turns: what one gets the other loses, so that signs change from step to step.
    """
    sign = 1.0 if players == 1 else -1.0
    found = np.zeros(rewards.shape)
    following = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        following = rewards[t] + sign * np.where(ends[t], 0.0, following)
        found[t] = following
    return found


def episode_numbers(ends: Array, valid: Array | None) -> Array:
    """Return the number of the episode that each step is of [T, L]; -1 where an episode is not whole.

    They are counted lane by lane, each lane from its first step on. An episode that has a step which is none, or that
    has no end, is not whole.

    Args:
        ends: Where an episode ended [T, L].
        valid: Which steps were made [T, L]; None for all.
    """
    numbers = np.full(ends.shape, -1)
    made = 0
    for lane in range(ends.shape[1]):
        begin = 0
        for end in np.flatnonzero(ends[:, lane]).tolist():
            if valid is None or valid[begin : end + 1, lane].all():
                numbers[begin : end + 1, lane] = made
                made += 1
            begin = end + 1
    return numbers
