"""Fragments whose lanes have different numbers of steps, one after another: lanes that are missing, gaps between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment, followed_by


def continued(first: Fragment, then: Fragment) -> Fragment:
    """Return one fragment of two, in which the steps of each lane follow one another without a gap.

    Args:
        first: The fragment that came before.
        then: The fragment that came after, of these lanes, fewer, or others.

    Returns:
        The lanes of both, in the order of their numbers. Those that have fewer steps begin later: all end in the last
        row. What fills them up before that is not valid.
    """
    lanes = np.union1d(first.lanes, then.lanes)
    last_obs = _with_lanes(first, lanes).last_obs
    last_obs[np.searchsorted(lanes, then.lanes)] = then.last_obs
    whole = followed_by(_with_lanes(first, lanes), _with_lanes(then, lanes))
    return aligned(replace(whole, last_obs=last_obs))


def aligned(fragment: Fragment) -> Fragment:
    """Return a fragment in which all lanes end in the last row, and those with fewer steps begin later."""
    if fragment.valid is None:
        return fragment
    ended = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
    held = fragment.valid | ended  # a step of an environment that failed is not valid, and has its place
    order = np.argsort(held, axis=0, kind="stable")
    places = np.argsort(order, axis=0, kind="stable")
    begin = len(held) - int(held.sum(axis=0).max(initial=1))

    def moved(column: Array) -> Array:
        index = order.reshape(*order.shape, *(1,) * (column.ndim - 2))
        found: Array = np.take_along_axis(column, index, axis=0)[begin:]
        return found

    steps, lanes = fragment.final_at.T
    final_at = np.stack([places[steps, lanes] - begin, lanes], axis=1)
    by_step = np.lexsort((final_at[:, 1], final_at[:, 0]))
    valid = moved(fragment.valid)
    return replace(
        fragment,
        columns={name: moved(column) for name, column in fragment.columns.items()},
        final_at=final_at[by_step],
        final_obs=fragment.final_obs[by_step],
        valid=None if valid.all() else valid,
        state_in={name: moved(column) for name, column in fragment.state_in.items()},
    )


def _with_lanes(fragment: Fragment, lanes: Array) -> Fragment:
    """Return a fragment with these lanes; those that it does not have hold no step."""
    places, (steps, _) = np.searchsorted(lanes, fragment.lanes), fragment.shape

    def spread(column: Array) -> Array:
        wide = np.zeros((steps, len(lanes), *column.shape[2:]), column.dtype)
        wide[:, places] = column
        return wide

    last_obs = np.zeros((len(lanes), *fragment.last_obs.shape[1:]), fragment.last_obs.dtype)
    last_obs[places] = fragment.last_obs
    return replace(
        fragment,
        columns={name: spread(column) for name, column in fragment.columns.items()},
        last_obs=last_obs,
        final_at=np.stack([fragment.final_at[:, 0], places[fragment.final_at[:, 1]]], axis=1),
        lanes=lanes,
        valid=spread(np.ones(fragment.shape, bool) if fragment.valid is None else fragment.valid),
        state_in={name: spread(column) for name, column in fragment.state_in.items()},
    )
