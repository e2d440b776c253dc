"""From fragments to rows as files have them, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import DataError

_OTHER_NAMES = {
    columns.ACTION_DIST_INPUTS: ("behaviour_logits", "logits"),
    columns.NEXT_OBS: ("next_obs",),
    columns.TERMINATEDS: ("terminals",),
    columns.TRUNCATEDS: ("timeouts",),
}
"""The names of columns in other releases, and in other collections."""


def ended(found: Mapping[str, Array]) -> Array:
    """Return where episodes end, flags as of `rewards`."""
    either: Array = found[columns.TERMINATEDS] | found[columns.TRUNCATEDS]
    return either


def rows_of(fragment: Fragment) -> list[Batch]:
    """Return the steps of each lane, in order, with `new_obs` and `dones`: one batch a lane, empty for none."""
    found = {**fragment.columns, columns.NEXT_OBS: fragment.next_obs(), columns.DONES: ended(fragment.columns)}
    found.pop(columns.RESETS, None)
    if columns.ACTION_LOGP in found:
        found[columns.ACTION_PROB] = np.exp(found[columns.ACTION_LOGP])
    made = []
    for lane in range(fragment.shape[1]):
        rows = slice(None) if fragment.valid is None else fragment.valid[:, lane]
        made.append(Batch({name: column[:, lane][rows] for name, column in found.items()}))
    return made


def fragment_of(
    batch: Batch, lane: int, *, needed: Sequence[str] = (), states: Mapping[str, Array] | None = None
) -> Fragment:
    """Return recorded rows as what one lane did.

    Where rows don't follow one another (the number of the episode changes, or the last row is reached) and no episode
    ended, it is as if the episode had been cut off there: its value beyond is that of `new_obs`. Rows whose next
    observation is not known are left out.

    Args:
        batch: The rows.
        lane: The number of the lane.
        needed: Further columns that are learned from.
        states: The initial states of recurrent modules, by name: recorded rows begin with these.

    Raises:
        DataError: If columns are missing.
    """
    found = _named(batch)
    _require(found, (columns.OBS, columns.ACTIONS, columns.REWARDS, *needed), batch)
    terminateds, truncateds = _ends(found)
    cuts = _cuts(found, terminateds | truncateds)
    next_obs, is_known = _next_obs(found, terminateds, cuts)
    truncateds = truncateds | (cuts & ~terminateds)
    kept: dict[str, Array] = {
        columns.OBS: found[columns.OBS],
        columns.ACTIONS: found[columns.ACTIONS],
        columns.REWARDS: np.asarray(found[columns.REWARDS], np.float32),
        columns.TERMINATEDS: terminateds,
        columns.TRUNCATEDS: truncateds,
        **{name: np.asarray(found[name], np.float32) for name in needed},
    }
    if not is_known.all():
        truncateds[:-1] |= ~is_known[1:] & ~terminateds[:-1]  # the row before one that is left out is the last one
        kept = {name: column[is_known] for name, column in kept.items()}
        next_obs = next_obs[is_known]
    return _of_one_lane(kept, next_obs, lane, states or {})


def _of_one_lane(kept: dict[str, Array], next_obs: Array, lane: int, states: Mapping[str, Array]) -> Fragment:
    count = len(next_obs)
    if not count:
        raise DataError(
            "a batch holds no step whose next observation is known: add the column 'new_obs', or write episodes of "
            "two steps or more"
        )
    if states:
        kept[columns.RESETS] = np.concatenate([[True], ended(kept)[:-1]])
    ends = np.flatnonzero(ended(kept))
    return Fragment(
        columns={name: column[:, None] for name, column in kept.items()},
        last_obs=next_obs[-1:],
        final_at=np.stack([ends, np.zeros_like(ends)], axis=1),
        final_obs=next_obs[ends],
        lanes=np.array([lane], np.int64),
        state_in={name: np.repeat(first[None, None], count, axis=0) for name, first in states.items()},
    )


def _named(batch: Batch) -> dict[str, Array]:
    found = dict(batch)
    for name, others in _OTHER_NAMES.items():
        for other in others:
            if name not in found and other in found:
                found[name] = found[other]
    if columns.ACTION_LOGP not in found and columns.ACTION_PROB in found:
        found[columns.ACTION_LOGP] = np.log(np.maximum(found[columns.ACTION_PROB], 1e-30))
    return found


def _require(found: Mapping[str, Array], names: Sequence[str], batch: Batch) -> None:
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"recorded experience has no {', '.join(missing)}, which is learned from; it has "
            f"{', '.join(sorted(batch))}. Add them where it is written, or take an algorithm that learns without, such "
            "as DQN or SAC"
        )


def _ends(found: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return where episodes terminated, and where they were cut off: flags [N]."""
    count = len(found[columns.REWARDS])
    truncateds = np.asarray(found.get(columns.TRUNCATEDS, np.zeros(count)), bool)
    if columns.TERMINATEDS in found:
        return np.asarray(found[columns.TERMINATEDS], bool), truncateds
    if columns.DONES in found:  # of releases that did not tell the two apart
        return np.asarray(found[columns.DONES], bool) & ~truncateds, truncateds
    raise DataError(
        f"recorded experience says nowhere where episodes end; it has {', '.join(sorted(found))}: add the column "
        "'terminateds' (or 'dones'), and 'truncateds' where episodes were cut off"
    )


def _cuts(found: Mapping[str, Array], ends: Array) -> Array:
    """Return after which rows none follows of the same episode, whether it ended there or not: flags [N]."""
    cuts: Array = ends.copy()
    cuts[-1:] = True
    for name in (columns.EPS_ID if columns.EPS_ID in found else columns.UNROLL_ID, columns.AGENT_INDEX):
        if name in found:
            numbers = found[name]
            cuts[:-1] |= numbers[1:] != numbers[:-1]
    return cuts


def _next_obs(found: Mapping[str, Array], terminateds: Array, cuts: Array) -> tuple[Array, Array]:
    """Return what was observed after each row, and where that is known; what follows a termination does not count."""
    if columns.NEXT_OBS in found:
        return found[columns.NEXT_OBS], np.ones(len(cuts), bool)
    obs: Any = found[columns.OBS]
    after = np.concatenate([obs[1:], obs[-1:]])
    after[cuts] = obs[cuts]
    return after, ~cuts | terminateds
