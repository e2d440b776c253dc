"""Replay of episodes: what a lane did from the beginning to the end, or a part of it where that is cut.

Networks that remember learn from such pieces, and mixing networks from what all agents of a group did at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import SequenceBatch
from kernel_rllib.replay.replay import require_rows

COLUMNS = (columns.OBS, columns.ACTIONS, columns.REWARDS, columns.TERMINATEDS)


@dataclass
class Piece:
    """Steps of one lane that follow one another within an episode.

    Attributes:
        columns: Arrays [T, ...] by their names; `obs` has one row more, what was observed after the last step.
        state_in: The state of the module before the first step, by names.
        burn_in: The number of steps at its beginning that only compute the state after them.
    """

    columns: dict[str, Array]
    state_in: dict[str, Array]
    burn_in: int = 0

    @property
    def steps(self) -> int:
        """Return how many steps it has."""
        return len(self.columns[columns.REWARDS])

    def after_burn_in(self, state_in: dict[str, Array]) -> Piece:
        """Return the steps after those of the burn-in, which leave such memories."""
        return Piece({name: column[self.burn_in :] for name, column in self.columns.items()}, state_in)


class Episodes:
    """Several pieces side by side, those that are shorter filled up with zeros.

    Attributes:
        obs: The observations [T + 1, N, ...], the last row after the last step.
        state_in: The states of the module before the first steps, arrays [N, ...] by their names.
        columns: `actions`, `rewards` and `terminateds`, arrays [T, N, ...].
        mask: 1 where there is a step [T, N].
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        """Put pieces side by side."""
        steps = max(piece.steps for piece in pieces)
        self.obs = _filled([piece.columns[columns.OBS] for piece in pieces], steps + 1)
        self.columns = {name: _filled([piece.columns[name] for piece in pieces], steps) for name in COLUMNS[1:]}
        self.mask = _filled([np.ones(piece.steps, np.float32) for piece in pieces], steps)
        self.state_in = {name: np.stack([piece.state_in[name] for piece in pieces]) for name in pieces[0].state_in}

    def inputs(self) -> dict[str, Any]:
        """Return what a module takes to go through all of it, the last observations included."""
        return {columns.OBS: self.obs, columns.RESETS: self._no_resets(1), columns.STATE_IN: self.state_in}

    def batch(self, targets: Array) -> SequenceBatch:
        """Return the steps as a batch, with what their values are drawn to [T * N, K]."""
        steps, count = self.mask.shape
        whole = {
            columns.OBS: self.obs[:-1],
            columns.RESETS: self._no_resets(),
            columns.ACTIONS: self.columns[columns.ACTIONS],
            columns.LOSS_MASK: self.mask,
            columns.VALUE_TARGETS: targets.reshape(steps, count, -1),
        }
        return SequenceBatch(whole, self.state_in)

    def _no_resets(self, more: int = 0) -> Array:
        """Return flags [T + more, N] that say that memories are cleared nowhere: pieces have their first ones."""
        steps, count = self.mask.shape
        return np.zeros((steps + more, count), bool)


class EpisodeReplay:
    """Keeps the newest pieces, and draws each of them with the same chance."""

    def __init__(self, capacity: int) -> None:
        """Keep as many pieces as have `capacity` steps, one at least."""
        self._capacity = capacity
        self._pieces: deque[Piece] = deque()
        self._steps = 0

    def __len__(self) -> int:
        return self._steps

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep these; the oldest ones go where there are too many steps."""
        for piece in pieces:
            self._pieces.append(piece)
            self._steps += piece.steps
            while self._steps > self._capacity and len(self._pieces) > 1:
                self._steps -= self._pieces.popleft().steps

    def sample(self, least: int, stream: np.random.Generator) -> Episodes:
        """Return pieces with `least` steps or more together, drawn with replacement.

        Raises:
            DataError: If it is empty.
        """
        require_rows(len(self))
        drawn, steps = [], 0
        while steps < least:
            piece = self._pieces[int(stream.integers(len(self._pieces)))]
            drawn.append(piece)
            steps += piece.steps
        return Episodes(drawn)

    def state(self) -> dict[str, Any]:
        """Return all that it holds, as arrays."""
        return arrays_of(list(self._pieces))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._pieces.clear()
        self._steps = 0
        self.add(pieces_of_arrays(state))


def arrays_of(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return pieces as arrays, as checkpoints keep them."""
    if not pieces:
        return {}
    return {
        "lengths": np.array([piece.steps for piece in pieces]),
        "burn_ins": np.array([piece.burn_in for piece in pieces]),
        "columns": {name: np.concatenate([piece.columns[name] for piece in pieces]) for name in COLUMNS},
        "state_in": {name: np.stack([piece.state_in[name] for piece in pieces]) for name in pieces[0].state_in},
    }


def pieces_of_arrays(arrays: Mapping[str, Any]) -> list[Piece]:
    """Return the pieces that `arrays_of` was called of."""
    begin, found = 0, []
    lengths = arrays.get("lengths", ())
    burn_ins = arrays.get("burn_ins", np.zeros(len(lengths), np.int64))
    for number, length in enumerate(lengths):
        rows = slice(begin, begin + int(length))
        observed = slice(rows.start + number, rows.stop + number + 1)  # Each piece has one row more.
        kept = {name: arrays["columns"][name][rows] for name in COLUMNS[1:]}
        kept[columns.OBS] = arrays["columns"][columns.OBS][observed]
        memories = {name: memory[number] for name, memory in arrays["state_in"].items()}
        found.append(Piece(kept, memories, int(burn_ins[number])))
        begin = rows.stop
    return found


def pieces_of(fragment: Fragment, most: int, overlap: int = 0) -> Iterator[Piece]:
    """Yield the steps of a fragment in pieces of `most` steps or fewer, lane after lane; none reaches past an end.

    Args:
        fragment: The fragment that was sampled.
        most: The largest number of steps of a piece.
        overlap: The number of them that repeat the piece before, where that is of the same episode: the burn-in.
    """
    steps, lanes = fragment.shape
    after = fragment.next_obs()
    ends = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
    valid = np.ones((steps, lanes), bool) if fragment.valid is None else fragment.valid
    for lane in range(lanes):
        begin = burn_in = 0
        for step in range(steps):
            if not valid[step, lane]:
                begin, burn_in = step + 1, 0
                continue
            is_last = step + 1 == steps or not valid[step + 1, lane] or ends[step, lane]
            if is_last or step + 1 - begin == most:
                yield _piece(fragment, after, lane, begin, step + 1, burn_in)
                burn_in = 0 if is_last else overlap
                begin = step + 1 - burn_in


def _piece(fragment: Fragment, after: Array, lane: int, begin: int, end: int, burn_in: int) -> Piece:
    kept = {name: fragment.columns[name][begin:end, lane].copy() for name in COLUMNS[1:]}
    observed = fragment.columns[columns.OBS][begin:end, lane]
    kept[columns.OBS] = np.concatenate([observed, after[end - 1 : end, lane]])
    return Piece(kept, {name: memory[begin, lane].copy() for name, memory in fragment.state_in.items()}, burn_in)


def _filled(parts: Sequence[Array], length: int) -> Array:
    """Return arrays [length, N, ...] of parts [T, ...] with zeros below those that are shorter."""
    found = np.zeros((length, len(parts), *parts[0].shape[1:]), parts[0].dtype)
    for place, part in enumerate(parts):
        found[: len(part), place] = part
    return found
