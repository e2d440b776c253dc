"""Statistics of filters where there are several policies: each policy has its own, of its agents' observations."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments, Statistics, moments_of
from kernel_rllib.connectors.pipeline import FILTER


def named_for(policy_id: str, moments: Moments) -> Statistics:
    """Return what the filter of a policy has learned, under a name that other policies' have not."""
    return {f"{policy_id}.{FILTER}": moments}


def of_policy(statistics: Mapping[str, Moments], policy_id: str) -> Statistics:
    """Return the statistics of one policy, by the names of its connectors."""
    own = f"{policy_id}.{FILTER}"
    return {FILTER: statistics[own]} if own in statistics else {}


def of_policies(statistics: Mapping[str, Moments], policy_ids: Collection[str]) -> Statistics:
    """Return the statistics of some policies, by the names that they have among those of all."""
    kept = {f"{policy_id}.{FILTER}" for policy_id in policy_ids}
    return {name: moments for name, moments in statistics.items() if name in kept}


class ObservedRows:
    """Rows that agents act on, lane by lane: agents come and go, so lanes have different numbers of them."""

    def __init__(self) -> None:
        """Begin without any."""
        self._rows: dict[int, list[Array]] = {}

    def add(self, lanes: Array, rows: Array) -> None:
        """Take in a row of each of these lanes, by their numbers [N]: [N, ...]."""
        for lane, row in zip(lanes.tolist(), np.array(rows), strict=True):
            self._rows.setdefault(lane, []).append(row)

    def take(self) -> Moments | None:
        """Return the moments of each lane that has rows, in the order of their numbers, and forget the rows."""
        if not self._rows:
            return None
        lanes = [moments_of(np.stack(self._rows[lane])[:, None]) for lane in sorted(self._rows)]
        self._rows = {}
        found = [made.arrays() for made in lanes]
        return Moments(**{name: np.concatenate([arrays[name] for arrays in found]) for name in found[0]})

    def forget(self) -> None:
        """Forget the rows."""
        self._rows = {}
