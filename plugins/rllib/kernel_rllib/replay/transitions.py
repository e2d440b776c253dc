"""From fragments to transitions of n steps, across the ends of fragments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment, followed_by
from kernel_rllib.data.ragged import aligned, continued
from kernel_rllib.returns.n_step import n_step

DISCOUNTS = "discounts"
"""The weight of the value of the observation after a transition: gamma^n, or 0 where the episode terminated."""


class Transitions:
    """Makes transitions of n steps of fragments that follow one another; the last n - 1 steps wait for the next one."""

    def __init__(
        self,
        *,
        n: int | tuple[int, int],
        gamma: float,
        keep: tuple[str, ...] = (),
        stream: np.random.Generator | None = None,
    ) -> None:
        """Make transitions.

        Args:
            n: The number of rewards that a transition sums up; of a pair of bounds, one is drawn for each.
            gamma: The discount factor of a reward that comes one step later.
            keep: Further columns of the first step that transitions take along.
            stream: The generator of random numbers that lengths are drawn by, where there are bounds.
        """
        self._bounds = (n, n) if isinstance(n, int) else n
        self._n, self._gamma = self._bounds[1], gamma
        self._stream = stream or np.random.default_rng(0)
        self._columns = (columns.OBS, columns.ACTIONS, *keep)
        self._waiting: Fragment | None = None

    def of(self, fragment: Fragment) -> Batch:
        """Return the transitions that are complete with this fragment, as rows.

        They have `obs`, `actions`, the discounted sum of rewards, `new_obs` after the last step that counts,
        `terminateds`, and `discounts`.
        """
        whole = self._after_waiting(fragment)
        steps, _ = whole.shape
        complete = steps - (self._n - 1)
        if self._n > 1:
            self._waiting = whole.steps_from(max(complete, 0))
        if complete <= 0:
            return Batch()
        n = self._drawn(whole.shape, complete)
        return _rows(whole, complete, n, self._gamma, self._columns)

    def of_whole(self, fragment: Fragment) -> Batch:
        """Return a transition for each step of a fragment, whatever follows it elsewhere; see `of`.

        The last ones sum up fewer rewards, as many as there are, and go on from the last observation.
        """
        whole = aligned(fragment)
        steps, _ = whole.shape
        return _rows(whole, steps, self._drawn(whole.shape, steps), self._gamma, self._columns)

    def state(self) -> dict[str, Any]:
        """Return the steps that wait, as arrays, and where the draws are."""
        waiting = {} if self._waiting is None else self._waiting.arrays()
        return {"waiting": waiting, "draws": self._stream.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._waiting = Fragment.of_arrays(state["waiting"]) if state["waiting"] else None
        self._stream.bit_generator.state = state["draws"]

    def _after_waiting(self, fragment: Fragment) -> Fragment:
        """Return the steps that wait, and those of a fragment."""
        waiting = self._waiting
        if waiting is None:
            is_even = self._n == 1 or fragment.valid is None
            return fragment if is_even else aligned(fragment)
        is_even = waiting.valid is None and fragment.valid is None and np.array_equal(waiting.lanes, fragment.lanes)
        return followed_by(waiting, fragment) if is_even else continued(waiting, fragment)

    def _drawn(self, shape: tuple[int, int], complete: int) -> int | Array:
        """Return how many rewards each step sums up: a number for all, or one for each [T, L]."""
        least, most = self._bounds
        if least == most:
            return most
        drawn = np.ones(shape, np.int64)  # no transition begins in the last rows yet
        drawn[:complete] = self._stream.integers(least, most + 1, (complete, shape[1]))
        return drawn


def _rows(whole: Fragment, complete: int, n: int | Array, gamma: float, names: tuple[str, ...]) -> Batch:
    """Return the transitions that begin in the first `complete` steps, as rows."""
    ends = whole.columns[columns.TERMINATEDS], whole.columns[columns.TRUNCATEDS]
    found = n_step(whole.columns[columns.REWARDS], *ends, n=n, gamma=gamma, valid=whole.valid)
    made = {name: whole.columns[name] for name in names}
    made[columns.REWARDS] = found.rewards
    made[columns.NEXT_OBS] = found.at_last(whole.next_obs())
    made[columns.TERMINATEDS] = found.at_last(whole.columns[columns.TERMINATEDS])
    made[DISCOUNTS] = found.discounts
    rows = {name: _flat(column[:complete]) for name, column in made.items()}
    if whole.valid is None:
        return Batch(rows)
    valid = np.flatnonzero(whole.valid[:complete].ravel())
    return Batch({name: column[valid] for name, column in rows.items()})


def _flat(column: Array) -> Array:
    return column.reshape(-1, *column.shape[2:])
