"""Replay of segments: consecutive steps of whole episodes, with what was still to come in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.replay.replay import require_rows


class SegmentReplay:
    """Keeps the newest episodes, and draws segments of them: each step begins one as likely as each other."""

    def __init__(self, capacity: int, length: int) -> None:
        """Keep as many episodes as have `capacity` steps, one at least, and draw segments of `length` steps."""
        self._capacity, self._length = capacity, length
        self._episodes: deque[dict[str, Array]] = deque()
        self._steps = 0
        self._ends: Array | None = None

    def __len__(self) -> int:
        return self._steps

    def add(self, episode: Mapping[str, Array]) -> None:
        """Keep an episode; the oldest ones go where there are too many steps.

        Args:
            episode: Its `obs` [T, O], `actions` [T, ...] and `rewards` [T], from its first step to its last.
        """
        rewards = np.asarray(episode[columns.REWARDS], np.float64)
        to_go = rewards[::-1].cumsum()[::-1].astype(np.float32)
        kept = {
            columns.OBS: episode[columns.OBS],
            columns.ACTIONS: episode[columns.ACTIONS],
            columns.RETURNS_TO_GO: to_go,
        }
        self._keep({name: np.array(column) for name, column in kept.items()})

    def sample(self, count: int, stream: np.random.Generator) -> Batch:
        """Return segments, one a row; those that an episode has fewer steps for are filled up with zeros at first.

        Args:
            count: The number of segments, B.
            stream: The generator of random numbers that they are drawn by.

        Returns:
            `obs` [B, T, O], `actions` [B, T, ...], `returns_to_go` [B, T], `timesteps` [B, T], the number of each step
            in its episode, and `loss_mask` [B, T], 1 where there is a step.

        Raises:
            DataError: If it is empty.
        """
        require_rows(self._steps)
        if self._ends is None:
            self._ends = np.cumsum([len(episode[columns.RETURNS_TO_GO]) for episode in self._episodes])
        drawn = stream.integers(self._steps, size=count)
        numbers = np.searchsorted(self._ends, drawn, side="right")
        first, length = self._episodes[0], self._length
        found = {name: np.zeros((count, length, *column.shape[1:]), column.dtype) for name, column in first.items()}
        timesteps, mask = np.zeros((count, length), np.int64), np.zeros((count, length), np.float32)
        for row, (number, step) in enumerate(zip(numbers.tolist(), drawn.tolist(), strict=True)):
            episode = self._episodes[number]
            begin = step - (int(self._ends[number - 1]) if number else 0)
            end = min(begin + length, len(episode[columns.RETURNS_TO_GO]))
            place = slice(length - (end - begin), length)
            for name, column in episode.items():
                found[name][row, place] = column[begin:end]
            timesteps[row, place] = np.arange(begin, end)
            mask[row, place] = 1
        return Batch(found, **{columns.TIMESTEPS: timesteps, columns.LOSS_MASK: mask})

    def state(self) -> dict[str, Any]:
        """Return all that it holds, as arrays."""
        if not self._episodes:
            return {}
        lengths = np.array([len(episode[columns.RETURNS_TO_GO]) for episode in self._episodes])
        joined = {name: np.concatenate([each[name] for each in self._episodes]) for name in self._episodes[0]}
        return {"lengths": lengths, "columns": joined}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._episodes.clear()
        self._steps, self._ends = 0, None
        begin = 0
        for length in np.asarray(state.get("lengths", ())).tolist():
            self._keep({name: np.array(each[begin : begin + length]) for name, each in state["columns"].items()})
            begin += length

    def _keep(self, episode: dict[str, Array]) -> None:
        self._episodes.append(episode)
        self._steps += len(episode[columns.RETURNS_TO_GO])
        self._ends = None
        while self._steps > self._capacity and len(self._episodes) > 1:
            self._steps -= len(self._episodes.popleft()[columns.RETURNS_TO_GO])


def episodes_of(fragment: Fragment) -> Iterator[dict[str, Array]]:
    """Yield the episodes of a fragment, lane after lane: columns [T, ...] by name; what does not end is left out."""
    names = (columns.OBS, columns.ACTIONS, columns.REWARDS)
    ends = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
    for lane in range(fragment.shape[1]):
        valid = slice(None) if fragment.valid is None else fragment.valid[:, lane]
        found = {name: fragment.columns[name][:, lane][valid] for name in names}
        begin = 0
        for end in (np.flatnonzero(ends[:, lane][valid]) + 1).tolist():
            yield {name: column[begin:end] for name, column in found.items()}
            begin = end
