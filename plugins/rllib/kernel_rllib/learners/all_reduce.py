"""Means of arrays over several processes, without one that is in the middle: all-reduce.

Each process owns a part of the array. First all send their numbers of a part to its owner, which takes the mean, then
owners send it to all (reduce-scatter and all-gather: Rabenseifner, Optimization of Collective Reduction Operations,
2004). So a process sends and gets no more than twice the array, however many there are. A part is added up in one
place only, in the order of ranks: all processes end with the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from kernel_rllib.arrays import Array

Key: TypeAlias = "tuple[int, int, int]"
"""The number of the operation, its phase, and the rank of the sender."""


class AllReduce:
    """One process's side. All processes call the same operations in the same order."""

    def __init__(self, rank: int, size: int, send: Callable[[int, Key, Array], None]) -> None:
        """Take part.

        Args:
            rank: The number of this process, from 0 on.
            size: The number of processes.
            send: Lets the process of a rank `receive` an array; returns at once.
        """
        self.rank, self.size = rank, size
        self._send = send
        self._operations = 0
        self._arrived: dict[Key, Array] = {}
        self._changed = threading.Condition()

    def receive(self, key: Key, array: Array) -> None:
        """Take in what another process sent; called in any thread."""
        with self._changed:
            self._arrived[key] = array
            self._changed.notify_all()

    def mean(self, array: Array) -> Array:
        """Return the mean of the arrays [size] of all processes."""
        self._operations += 1
        parts = np.array_split(array, self.size)
        for other in self._others():
            self._send(other, (self._operations, 0, self.rank), parts[other].copy())
        total = np.zeros_like(parts[self.rank])
        for rank in range(self.size):
            total += parts[self.rank] if rank == self.rank else self._of(0, rank)
        total /= self.size
        for other in self._others():
            self._send(other, (self._operations, 1, self.rank), total)
        return np.concatenate([total if rank == self.rank else self._of(1, rank) for rank in range(self.size)])

    def least(self, number: int) -> int:
        """Return the least of the numbers of all processes."""
        self._operations += 1
        for other in self._others():
            self._send(other, (self._operations, 0, self.rank), np.array(number))
        return min(number, *(int(self._of(0, rank)) for rank in self._others())) if self.size > 1 else number

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _of(self, phase: int, rank: int) -> Array:
        """Return what a process sent in this operation; wait for it."""
        key = (self._operations, phase, rank)
        with self._changed:
            self._changed.wait_for(lambda: key in self._arrived)
            return self._arrived.pop(key)
