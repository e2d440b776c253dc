"""Fragment: what a runner has sampled, as columns of arrays [T, L, ...]: T steps of L lanes.

A lane is one agent in one copy of an environment. Its episodes follow one another down its column, so one array holds
all that happened there, in order, and is written once. Episodes and batches are views that are made when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError


@dataclass
class Fragment:
    """Steps of some lanes of one module.

    Attributes:
        columns: Arrays [T, L, ...] by their names.
        last_obs: The observation after the last step of each lane [L, ...], whose value returns are bootstrapped with.
        final_at: The ends of episodes: pairs of a step and the position of a lane, [K, 2], ordered by step, then lane.
        final_obs: The observations at these ends [K, ...]; the row after an end is the first of the next episode.
        lanes: The numbers of the lanes among all lanes of a run [L]; they say in which order fragments are joined.
        weights_version: The version of the weights that chose the actions.
        valid: Whether entries are steps that were made [T, L]; None if all are. The others fill up lanes that have
            fewer
            steps, or are steps of an environment that failed: nothing is to be learned from them.
        state_in: The states of recurrent modules before each step, arrays [T, L, ...] by their names.
    """

    columns: dict[str, Array]
    last_obs: Array
    final_at: Array
    final_obs: Array
    lanes: Array
    weights_version: int = 0
    valid: Array | None = None
    state_in: dict[str, Array] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Return T and L."""
        steps, lanes = self.columns[columns.REWARDS].shape[:2]
        return steps, lanes

    @property
    def steps(self) -> int:
        """Return how many steps of agents it holds."""
        if self.valid is not None:
            return int(self.valid.sum())
        steps, lanes = self.shape
        return steps * lanes

    def next_values(self, values: Array, value_of: Callable[[Array], Array]) -> Array:
        """Return the value of what was observed after each step.

        Args:
            values: The values of `obs` [T, L].
            value_of: Gives the values [N] of observations [N, ...]. It is asked once, for the last observations of all
                lanes and for the final observations of episodes.

        Returns:
            [T, L]. After the end of an episode it is the value of its final observation, not that of the next
            episode's first: whether it counts is for the flags `terminateds` and `truncateds` to say.
        """
        beyond = value_of(np.concatenate([self.last_obs, self.final_obs]))
        lanes = len(self.last_obs)
        return self._after(values, beyond[:lanes], beyond[lanes:])

    def beyond_at(self) -> Array:
        """Return the steps after which `last_obs` and then `final_obs` were observed: pairs as in `final_at`."""
        last = np.stack([self._last_steps(), np.arange(len(self.last_obs))], axis=1)
        return np.concatenate([last, self.final_at])

    def next_obs(self) -> Array:
        """Return what was observed after each step [T, L, ...]; at the end of an episode, its final observation."""
        return self._after(self.columns[columns.OBS], self.last_obs, self.final_obs)

    def arrays(self) -> dict[str, Any]:
        """Return all of it as arrays and plain values, as checkpoints keep them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Fragment:
        """Return the fragment that `arrays` was called of."""
        return cls(**arrays)

    def steps_from(self, start: int) -> Fragment:
        """Return the steps from number `start` on, as views."""
        later = self.final_at[:, 0] >= start
        return replace(
            self,
            columns={name: column[start:] for name, column in self.columns.items()},
            final_at=self.final_at[later] - np.array([start, 0]),
            final_obs=self.final_obs[later],
            valid=None if self.valid is None else self.valid[start:],
            state_in={name: column[start:] for name, column in self.state_in.items()},
        )

    def of_lanes(self, start: int, stop: int) -> Fragment:
        """Return the lanes at the positions from `start` on, before `stop`, as views."""
        here = (self.final_at[:, 1] >= start) & (self.final_at[:, 1] < stop)
        return replace(
            self,
            columns={name: column[:, start:stop] for name, column in self.columns.items()},
            last_obs=self.last_obs[start:stop],
            final_at=self.final_at[here] - np.array([0, start]),
            final_obs=self.final_obs[here],
            lanes=self.lanes[start:stop],
            valid=None if self.valid is None else self.valid[:, start:stop],
            state_in={name: column[:, start:stop] for name, column in self.state_in.items()},
        )

    def up_to(self, ends: Array) -> Fragment:
        """Return the first steps of each lane, as many as `ends` [L] says; the others are no steps any more."""
        steps = int(ends.max())
        made = np.arange(steps)[:, None] < ends
        if self.valid is not None:
            made &= self.valid[:steps]
        kept = self.final_at[:, 0] < ends[self.final_at[:, 1]]
        return replace(
            self,
            columns={name: column[:steps] for name, column in self.columns.items()},
            last_obs=self.next_obs()[ends - 1, np.arange(len(ends))],
            final_at=self.final_at[kept],
            final_obs=self.final_obs[kept],
            valid=None if made.all() else made,
            state_in={name: column[:steps] for name, column in self.state_in.items()},
        )

    def batch(self) -> Batch:
        """Return the filled steps as rows, step after step and lane after lane in each; views where all are filled."""
        steps, lanes = self.shape
        flat = {name: column.reshape(steps * lanes, *column.shape[2:]) for name, column in self.columns.items()}
        if self.valid is None:
            return Batch(flat)
        rows = np.flatnonzero(self.valid.ravel())
        return Batch({name: column.take(rows, axis=0) for name, column in flat.items()})

    def _after(self, here: Array, last: Array, final: Array) -> Array:
        """Return what follows each step: `here` [T, L, ...] one step later, `last` after lanes, `final` at ends."""
        after = np.empty_like(here)
        after[:-1] = here[1:]
        after[self._last_steps(), np.arange(len(last))] = last
        after[self.final_at[:, 0], self.final_at[:, 1]] = final
        return after

    def _last_steps(self) -> Array:
        """Return the number of the last step of each lane [L]; of one without steps, the last there is room for."""
        steps, lanes = self.shape
        if self.valid is None:
            return np.full(lanes, steps - 1)
        last: Array = steps - 1 - self.valid[::-1].argmax(axis=0)
        return last


def joined(fragments: Sequence[Fragment]) -> Fragment:
    """Return one fragment with the lanes of all, in the order of their numbers.

    The result is the same however the lanes were shared among runners. Fragments with fewer steps than the longest are
    filled up with zeros, and `valid` says so.

    Raises:
        DataError: If there is no fragment, or they have different columns.
    """
    if not fragments:
        raise DataError("there are no fragments to join: the runners returned none. Ask them to sample first.")
    ordered = sorted(fragments, key=lambda fragment: int(fragment.lanes[0]) if len(fragment.lanes) else -1)
    if len(ordered) == 1:
        return ordered[0]
    _require_equal_columns(ordered)
    steps = max(fragment.shape[0] for fragment in ordered)
    partial = any(fragment.valid is not None or fragment.shape[0] != steps for fragment in ordered)
    offsets = np.cumsum([0, *(fragment.shape[1] for fragment in ordered[:-1])])
    ends = np.concatenate(
        [fragment.final_at + np.array([0, offset]) for fragment, offset in zip(ordered, offsets, strict=True)]
    )
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    return Fragment(
        columns={name: _beside([part.columns[name] for part in ordered], steps) for name in ordered[0].columns},
        last_obs=np.concatenate([fragment.last_obs for fragment in ordered]),
        final_at=ends[order],
        final_obs=np.concatenate([fragment.final_obs for fragment in ordered])[order],
        lanes=np.concatenate([fragment.lanes for fragment in ordered]),
        weights_version=min(fragment.weights_version for fragment in ordered),
        valid=_beside([_valid(fragment) for fragment in ordered], steps) if partial else None,
        state_in={name: _beside([part.state_in[name] for part in ordered], steps) for name in ordered[0].state_in},
    )


def followed_by(first: Fragment, then: Fragment) -> Fragment:
    """Return one fragment of two of the same lanes, the second of which begins where the first one ended.

    Raises:
        DataError: If they are of other lanes, or have different columns.
    """
    if first.lanes.tolist() != then.lanes.tolist():
        raise DataError(
            f"fragments of different lanes can't follow one another: {first.lanes.tolist()} and {then.lanes.tolist()}. "
            "All fragments of a run need the same lanes, in the same order."
        )
    _require_equal_columns([first, then])
    steps = first.shape[0]
    partial = first.valid is not None or then.valid is not None
    return Fragment(
        columns={name: np.concatenate([column, then.columns[name]]) for name, column in first.columns.items()},
        last_obs=then.last_obs,
        final_at=np.concatenate([first.final_at, then.final_at + np.array([steps, 0])]),
        final_obs=np.concatenate([first.final_obs, then.final_obs]),
        lanes=first.lanes,
        weights_version=first.weights_version,
        valid=np.concatenate([_valid(first), _valid(then)]) if partial else None,
        state_in={name: np.concatenate([column, then.state_in[name]]) for name, column in first.state_in.items()},
    )


def _require_equal_columns(fragments: Sequence[Fragment]) -> None:
    names = set(fragments[0].columns)
    for fragment in fragments[1:]:
        if set(fragment.columns) != names:
            raise DataError(
                f"fragments with different columns can't be joined: lanes {fragments[0].lanes.tolist()} have "
                f"{sorted(names)}, lanes {fragment.lanes.tolist()} have {sorted(fragment.columns)}. All runners of a "
                "group must run the same module and connectors."
            )


def _valid(fragment: Fragment) -> Array:
    return np.ones(fragment.shape, bool) if fragment.valid is None else fragment.valid


def _beside(parts: Sequence[Array], steps: int) -> Array:
    """Return [steps, sum of lanes, ...] with the parts beside one another, zeros below those that are shorter."""
    if all(len(part) == steps for part in parts):
        return np.concatenate(parts, axis=1)
    filled = [np.concatenate([part, np.zeros((steps - len(part), *part.shape[1:]), part.dtype)]) for part in parts]
    return np.concatenate(filled, axis=1)


def empty_ends(obs_shape: Sequence[int], dtype: Any) -> tuple[Array, Array]:
    """Return `final_at` and `final_obs` of a fragment in which no episode ended."""
    return np.empty((0, 2), np.int64), np.empty((0, *obs_shape), dtype)
