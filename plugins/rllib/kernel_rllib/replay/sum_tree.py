"""Trees over the priorities of rows: their sum, their smallest, and draws in proportion to them, for many rows at once.

Each node stands for 64 children, so a tree over a million rows has four levels, and a draw or an update of a whole
minibatch is a few operations of numpy a level. Nodes are made anew from their children at every update: they do not
drift.
"""

from __future__ import annotations

import numpy as np

from kernel_rllib.arrays import Array

FAN_OUT = 64
MANY = 128
"""Up to so many rows, to make a node anew for each is quicker than to find out which share one."""


class ReductionTree:
    """Numbers of rows, and one number that sums them up by an operation such as `numpy.minimum`."""

    def __init__(self, capacity: int, operation: np.ufunc, empty: float) -> None:
        """Make a tree over `capacity` rows.

        Args:
            capacity: The number of rows.
            operation: Makes one number of two, in any order.
            empty: The number that rows hold at first; it changes nothing where it is put together with others.
        """
        self._operation = operation
        self._levels: list[Array] = []
        nodes = capacity
        while not self._levels or len(self._levels[-1]) > FAN_OUT:
            padded = -(-nodes // FAN_OUT) * FAN_OUT
            self._levels.append(np.full(padded, empty, np.float64))
            nodes = padded // FAN_OUT
        self._levels.reverse()

    @property
    def all(self) -> float:
        """Return the number for all rows."""
        return float(self._operation.reduce(self._levels[0]))

    def __getitem__(self, rows: Array) -> Array:
        """Return the numbers of rows [N]."""
        return self._levels[-1][rows]

    def __setitem__(self, rows: Array, numbers: Array) -> None:
        """Set the numbers of rows [N]; where a row is named twice, the last one holds."""
        self._levels[-1][rows] = numbers
        for above, below in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            rows = np.asarray(rows) // FAN_OUT
            if len(rows) > MANY:
                rows = np.unique(rows)
            above[rows] = self._operation.reduce(below.reshape(-1, FAN_OUT)[rows], axis=1)


class SumTree(ReductionTree):
    """Priorities of rows, zero at first, and their sum."""

    def __init__(self, capacity: int) -> None:
        """Make a tree over `capacity` rows."""
        super().__init__(capacity, np.add, 0.0)

    def find(self, sums: Array) -> Array:
        """Return for each number the first row up to which priorities sum up to more than it.

        Args:
            sums: Numbers [N], each at least 0 and less than `all`.

        Returns:
            Rows [N]. Rows whose priority is 0 are never among them.
        """
        targets = np.asarray(sums, np.float64)
        at = np.arange(len(targets))
        nodes = np.zeros(len(targets), np.int64)
        for level in self._levels:
            children = level.reshape(-1, FAN_OUT)[nodes]
            until = children.cumsum(axis=1)
            # Rounding may leave a target at the sum of its node, or above: its last child that has any is meant then.
            targets = np.minimum(targets, np.nextafter(until[:, -1], 0))
            chosen = (until <= targets[:, None]).sum(axis=1)
            targets = np.maximum(targets - (until[at, chosen] - children[at, chosen]), 0)
            nodes = nodes * FAN_OUT + chosen
        return nodes


class MinTree(ReductionTree):
    """Priorities of rows, infinite at first, and the smallest of them."""

    def __init__(self, capacity: int) -> None:
        """Make a tree over `capacity` rows."""
        super().__init__(capacity, np.minimum, np.inf)
