"""Cover needs by patterns at the least cost: a linear program, solved by the revised simplex with column generation.

    minimise  sum_p cost_p x_p   where  sum_p pieces_ip x_p >= count_i for each need i,  x >= 0

A pattern is one machine of a kind, filled with so many pieces of each need. There are far too many to list, so they
are made as they are needed: given the worth of a piece of each need (the dual prices), the most valuable filling of
each kind is looked for, and enters the basis if it is worth more than it costs (P. C. Gilmore and R. E. Gomory, "A
Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9, 1961). A filling is found by greedy
rules, so the optimum is that over the fillings that these find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from kernel_spec.dataclass import dataclass

_LITTLE = 1e-9
MOST_STEPS = 400
"""The number of exchanges of the basis after which the best solution so far is taken."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A machine of `kind`, filled with `pieces` of each need, at `cost`."""

    kind: str
    pieces: tuple[int, ...]
    cost: float


Filler = Callable[[Sequence[float]], "list[Pattern]"]
"""Given the worth of a piece of each need, return fillings of machines that may be worth more than they cost."""


@dataclass(frozen=True, slots=True)
class Cover:
    """How often to take each pattern (a fraction, too), the worth of a piece of each need, and the cost of all."""

    times: tuple[tuple[Pattern, float], ...]
    worth: tuple[float, ...]
    cost: float


def cover(counts: Sequence[int], first: Sequence[Pattern], fill: Filler) -> Cover:
    """Return the cheapest cover of `counts` pieces of each need.

    `first` has a pattern for each need, in order, that holds pieces of this need alone.
    """
    rows = len(counts)
    basis = list(first)
    inverse = numpy.diag([1.0 / pattern.pieces[row] for row, pattern in enumerate(first)])
    times = inverse @ numpy.asarray(counts, dtype=float)
    costs = numpy.array([pattern.cost for pattern in first])
    worth = costs @ inverse
    for _ in range(MOST_STEPS):
        worth = costs @ inverse
        entering, column = _entering(worth, fill(tuple(map(float, worth))), rows)
        if entering is None:
            break
        direction = inverse @ column
        ratios = numpy.where(direction > _LITTLE, times / numpy.where(direction > _LITTLE, direction, 1.0), numpy.inf)
        leaving = int(ratios.argmin())
        if not numpy.isfinite(ratios[leaving]):
            break
        step = ratios[leaving]
        times = numpy.maximum(times - step * direction, 0.0)
        times[leaving] = step
        basis[leaving], costs[leaving] = entering, entering.cost
        row = inverse[leaving] / direction[leaving]
        inverse = inverse - numpy.outer(direction, row)
        inverse[leaving] = row
    taken = tuple((pattern, float(x)) for pattern, x in zip(basis, times, strict=True) if x > _LITTLE and pattern.kind)
    return Cover(taken, tuple(map(float, numpy.maximum(worth, 0.0))), float(costs @ times))


def _entering(worth: numpy.ndarray, found: list[Pattern], rows: int) -> tuple[Pattern | None, numpy.ndarray]:
    """Return the pattern with the largest gain and its column; one without a kind gives up a piece that is too many."""
    best, gain, column = None, _LITTLE, numpy.zeros(rows)
    for pattern in found:
        pieces = numpy.asarray(pattern.pieces, dtype=float)
        more = float(worth @ pieces) - pattern.cost
        if more > gain * max(1.0, pattern.cost):
            best, gain, column = pattern, more, pieces
    least = int(worth.argmin())
    if -worth[least] > gain:
        pieces = numpy.zeros(rows)
        pieces[least] = -1.0
        return Pattern("", tuple(-int(row == least) for row in range(rows)), 0.0), pieces
    return best, column
