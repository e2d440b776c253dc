"""Targets of a value's distribution over fixed atoms (C51): Bellemare et al. 2017, arXiv 1707.06887."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernel_rllib.errors import DataError
from kernel_rllib.returns.steps import Floats


def categorical_support(v_min: float, v_max: float, atoms: int, dtype: Any = np.float32) -> Floats:
    """Return the atoms z(0) = v_min to z(atoms - 1) = v_max, equally far apart.

    Raises:
        DataError: there are fewer than two atoms, or v_min is not below v_max.
    """
    if atoms < 2 or not v_min < v_max:
        raise DataError(
            f"{atoms} atoms from v_min={v_min} to v_max={v_max}: give two atoms or more, and a v_min below v_max"
        )
    return np.linspace(v_min, v_max, atoms, dtype=dtype)


def project_categorical(
    probabilities: ArrayLike, rewards: ArrayLike, discounts: ArrayLike, *, v_min: float, v_max: float
) -> Floats:
    """Return the distribution of reward + discount * Z on Z's own atoms.

    Algorithm 1 of the paper: each atom's probability is moved to where the atom goes, cut to [v_min, v_max], and shared
    between the two atoms beside it, more to the nearer one. The mean is kept unless an atom leaves the range.

    Args:
        probabilities: floats [N, atoms], Z after the step: of the action that the policy would take there.
        rewards: floats [N], for n-step targets the discounted sum.
        discounts: floats [N], gamma (for n-step targets gamma^n), and 0 after a step that terminated.
        v_min: the lowest atom.
        v_max: the highest atom.

    Raises:
        DataError: shapes do not fit, there are fewer than two atoms, or v_min is not below v_max.
    """
    given = np.asarray(probabilities)
    if given.dtype.kind != "f":
        given = given.astype(np.float32)
    if given.ndim != 2:
        raise DataError(f"probabilities have the shape {list(given.shape)}: [row, atom] was expected")
    rows, atoms = given.shape
    support = categorical_support(v_min, v_max, atoms, given.dtype)
    moved = _column("discounts", discounts, rows, given.dtype) * support
    moved += _column("rewards", rewards, rows, given.dtype)
    np.maximum(moved, v_min, out=moved)
    np.minimum(moved, v_max, out=moved)
    moved -= v_min
    moved *= (atoms - 1) / (v_max - v_min)  # in units of the distance between atoms, 0 to atoms - 1
    lower = np.minimum(moved.astype(np.int64), atoms - 2)  # so there always is one above it
    moved -= lower
    upper_share = given * moved
    lower_share = given - upper_share
    lower += np.arange(0, rows * atoms, atoms)[:, None]
    places = lower.ravel()
    sums = np.bincount(places, lower_share.ravel(), rows * atoms)
    sums[1:] += np.bincount(places, upper_share.ravel(), rows * atoms)[:-1]
    return sums.reshape(rows, atoms).astype(given.dtype)


def _column(name: str, array: ArrayLike, rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    column = np.asarray(array, dtype)
    if column.shape != (rows,):
        raise DataError(f"{name} has the shape {list(column.shape)}: one number for each of the {rows} rows expected")
    return column[:, None]
