"""Large arrays that are used again from one gradient to the next.

Fresh memory costs the operating system five times what a sum of two arrays costs, and a gradient needs the same shapes
each time. An array is handed out again only when its reference count shows no other reference, nor a view of it: what
a loss keeps is never overwritten.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
LARGE = 8192
"""Arrays of so many numbers are worth using again."""
_ROUNDS = 64


class Memory:
    """Free arrays of one type, by shape."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._free: dict[tuple[int, ...], list[Numbers]] = {}
        self._asked: dict[tuple[int, ...], int] = {}
        self._needed: dict[tuple[int, ...], int] = {}
        self._rounds = 0

    def room(self, shape: tuple[int, ...]) -> Numbers:
        """Return an array of that shape to write to, with anything in it."""
        self._asked[shape] = self._asked.get(shape, 0) + 1
        free = self._free.get(shape)
        while free:
            array = free.pop()
            if getrefcount(array) == _POPPED_ALONE:
                return array
        return np.empty(shape, self._dtype)

    def give_back(self, array: Any) -> None:
        """Keep `array` for later, where only the caller holds it."""
        if array.size >= LARGE and getrefcount(array) <= _POPPED_ALONE + 1:
            self.keep(array)

    def keep(self, array: Any) -> None:
        """Keep `array` for later, where it is large and no view. No other code may hold it any more."""
        if array.size >= LARGE and array.base is None and array.dtype == self._dtype and array.flags.c_contiguous:
            shape = array.shape
            free = self._free.setdefault(shape, [])
            if len(free) < max(self._asked.get(shape, 0), self._needed.get(shape, 0)):
                free.append(array)

    def end_round(self) -> None:
        """Note how many arrays of each shape a gradient took; now and then drop those that none takes any more."""
        for shape, count in self._asked.items():
            if count > self._needed.get(shape, 0):
                self._needed[shape] = count
        self._asked.clear()
        self._rounds += 1
        if self._rounds % _ROUNDS == 0:
            self._free = {shape: arrays for shape, arrays in self._free.items() if shape in self._needed}
            self._needed.clear()


def _popped_alone() -> int:
    arrays = [np.empty(1)]
    array = arrays.pop()
    return getrefcount(array)


_POPPED_ALONE = _popped_alone()
"""The reference count of an array that one variable holds; it depends on the version of Python."""
