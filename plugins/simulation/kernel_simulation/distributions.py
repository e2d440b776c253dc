"""Durations and arrivals of work: distributions by name, drawn with a given random generator."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, chain, cycle, islice, repeat
from random import Random
from typing import Any

from kernel_spec.dataclass import dataclass

FOREVER = math.inf
"""The duration of what never ends."""

Draw = Callable[..., Iterable[float]]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution by name, with its numbers, such as `exponential` with `{"mean": 2.0}`."""

    word: str
    numbers: Mapping[str, Any]

    def durations(self, count: int, dice: Random) -> array[float]:
        """Return `count` durations in seconds."""
        return array("d", islice(DURATIONS[self.word][1](dice, **self.numbers), count))

    def arrivals(self, count: int, dice: Random) -> array[float]:
        """Return `count` moments in seconds since the beginning, in order."""
        return array("d", islice(ARRIVALS[self.word][1](dice, count, **self.numbers), count))


def _fixed(dice: Random, *, seconds: float) -> Iterable[float]:
    return repeat(seconds)


def _uniform(dice: Random, *, least: float, most: float) -> Iterable[float]:
    return (least + (most - least) * dice.random() for _ in repeat(None))


def _exponential(dice: Random, *, mean: float) -> Iterable[float]:
    return (dice.expovariate(1 / mean) for _ in repeat(None))


def _lognormal(dice: Random, *, mean: float, sigma: float) -> Iterable[float]:
    middle = math.log(mean) - sigma * sigma / 2
    return (dice.lognormvariate(middle, sigma) for _ in repeat(None))


def _values(dice: Random, *, values: list[float]) -> Iterable[float]:
    return cycle(values)


def _forever(dice: Random) -> Iterable[float]:
    return repeat(FOREVER)


def _at_once(dice: Random, count: int, *, begin: float = 0.0) -> Iterable[float]:
    return repeat(begin)


def _poisson(dice: Random, count: int, *, rate: float, begin: float = 0.0) -> Iterable[float]:
    return accumulate(chain([begin + dice.expovariate(rate)], (dice.expovariate(rate) for _ in repeat(None))))


def _evenly(dice: Random, count: int, *, seconds: float, begin: float = 0.0) -> Iterable[float]:
    return (begin + seconds * number / count for number in range(count))


def _times(dice: Random, count: int, *, times: list[float]) -> Iterable[float]:
    return sorted(times)


Numbers = Mapping[str, bool]
"""Name of a number to whether it must be given."""

DURATIONS: Mapping[str, tuple[Numbers, Draw]] = {
    "fixed": ({"seconds": True}, _fixed),
    "uniform": ({"least": True, "most": True}, _uniform),
    "exponential": ({"mean": True}, _exponential),
    "lognormal": ({"mean": True, "sigma": True}, _lognormal),
    "values": ({"values": True}, _values),
    "forever": ({}, _forever),
}
"""Distributions of durations, by name. `values` are taken in order, again and again."""

ARRIVALS: Mapping[str, tuple[Numbers, Draw]] = {
    "at_once": ({"begin": False}, _at_once),
    "poisson": ({"rate": True, "begin": False}, _poisson),
    "uniform": ({"seconds": True, "begin": False}, _evenly),
    "times": ({"times": True}, _times),
}
"""When work may come, by name. `times` must be as many as there is work."""
