"""Choose which machines to buy for what is needed, at the least price per hour.

Counts of machines are whole numbers, and to choose them exactly is a hard (bin packing) problem. So the fractions of
the cheapest cover (`covering`) are rounded in several ways, what is then missing is bought greedily, and the cheapest
outcome is taken. At last each machine is exchanged for the cheapest kind that holds what was placed on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from kernel_autoscaler.core.bins import Need, fits, take
from kernel_autoscaler.core.covering import Cover, Pattern, cover
from kernel_autoscaler.core.kinds import Kind
from kernel_spec.dataclass import dataclass
from kernel_spec.resources import Amounts

_ROUNDINGS = (1.0, 0.7, 0.4, 0.1)
"""From which fraction on a number of machines is rounded up; 1: never."""

Room = Callable[[str, Mapping[str, int]], float]
"""How many more machines of a kind there may be (infinity: any number), when so many of each are bought already."""


@dataclass(slots=True)
class Purchase:
    """Machines to buy: patterns and how often each. `left` are the counts of the needs that no machine serves."""

    machines: Counter[Pattern] = field(default_factory=Counter)
    left: list[int] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """The price per hour of all."""
        return sum(pattern.cost * count for pattern, count in self.machines.items())

    def counts(self) -> dict[str, int]:
        """Return how many machines of each kind."""
        found: Counter[str] = Counter()
        for pattern, count in self.machines.items():
            found[pattern.kind] += count
        return dict(found)


def cheapest(needs: Sequence[Need], kinds: Sequence[Kind], room: Room = lambda kind, bought: math.inf) -> Purchase:
    """Return what to buy for `needs`. What no kind can hold, or there is no room for, is left.

    `room` says how many machines of a kind there may be beside others.
    """
    market = _Market(needs, [kind for kind in kinds if room(kind.name, {}) >= 1])
    counts = [need.count for need in needs]
    left = [count if row not in market.rows else 0 for row, count in enumerate(counts)]
    wanted = [0 if left[row] else count for row, count in enumerate(counts)]
    if not any(wanted):
        return Purchase(left=left)
    solution = market.solve(wanted)
    outcomes = [market.buy(wanted, solution, rounding, room) for rounding in _ROUNDINGS]
    best = min(outcomes, key=lambda one: (sum(one.left), one.cost))
    best.left = [more + less for more, less in zip(left, best.left, strict=True)]
    return best


class _Market:
    """What machines can be bought for needs. `rows` are the numbers of the needs that some kind can hold."""

    def __init__(self, needs: Sequence[Need], kinds: Sequence[Kind]) -> None:
        self.needs = needs
        self.kinds = {kind.name: kind for kind in kinds}
        self._suited = {kind.name: [row for row, need in enumerate(needs) if _holds(kind, need)] for kind in kinds}
        self.rows = {row for rows in self._suited.values() for row in rows}

    def solve(self, wanted: Sequence[int]) -> Cover:
        """Return the cheapest cover of `wanted` pieces, in fractions of machines."""
        rows = [row for row, count in enumerate(wanted) if count]
        first = [self._alone(row, wanted[row], rows) for row in rows]
        solution = cover(
            [wanted[row] for row in rows],
            first,
            lambda worth: self._fillings(_spread(worth, rows, len(wanted)), wanted, rows),
        )
        whole = tuple((self._widen(pattern, rows, len(wanted)), times) for pattern, times in solution.times)
        return Cover(whole, tuple(_spread(solution.worth, rows, len(wanted))), solution.cost)

    def buy(self, wanted: Sequence[int], solution: Cover, rounding: float, room: Room) -> Purchase:
        """Round a solution, buy what is missing then, and exchange each machine for the cheapest that suffices."""
        purchase, missing = Purchase(), list(wanted)
        for pattern, times in sorted(solution.times, key=lambda one: -one[1]):
            count = math.floor(times) + (times % 1 >= rounding)
            self._add(purchase, pattern, count, missing, room)
        while any(missing):
            best = self._best(solution.worth, missing, purchase, room)
            if best is None:
                break
            times = min(missing[row] // pieces for row, pieces in enumerate(best.pieces) if pieces)
            self._add(purchase, best, max(1, times), missing, room)
        purchase.left = missing
        return self._exchanged(purchase, room)

    def _add(self, purchase: Purchase, pattern: Pattern, count: int, missing: list[int], room: Room) -> None:
        """Buy `count` machines that are filled so, or fewer: none that would be empty, and as many as there is room."""
        count = int(min(count, max(0.0, room(pattern.kind, purchase.counts()))))
        while count > 0:
            pieces = tuple(min(piece, left) for piece, left in zip(pattern.pieces, missing, strict=True))
            if not any(pieces):
                return
            times = min(count, *(missing[row] // piece for row, piece in enumerate(pieces) if piece))
            purchase.machines[Pattern(pattern.kind, pieces, pattern.cost)] += times
            for row, piece in enumerate(pieces):
                missing[row] -= piece * times
            count -= times

    def _best(self, worth: Sequence[float], missing: Sequence[int], bought: Purchase, room: Room) -> Pattern | None:
        """Return the filled machine that brings the most for its price."""
        counts = bought.counts()
        rows = [row for row, count in enumerate(missing) if count]
        found = [
            pattern for pattern in self._fillings(worth, missing, rows, whole=True) if room(pattern.kind, counts) >= 1
        ]
        little = min((price for price in worth if price > 0), default=1.0) * 1e-3

        def value(pattern: Pattern) -> tuple[float, float]:
            brought = sum(pieces * (worth[row] + little) for row, pieces in enumerate(pattern.pieces))
            return brought / (pattern.cost or little), -pattern.cost

        return max(found, key=value, default=None)

    def _fillings(
        self, worth: Sequence[float], most: Sequence[int], rows: Sequence[int], whole: bool = False
    ) -> list[Pattern]:
        """Return a machine of each kind, filled by several rules. Not `whole`: pieces of the `rows` alone."""
        found: dict[Pattern, None] = {}
        for name, kind in self.kinds.items():
            suited = [row for row in self._suited[name] if most[row]]
            for order in self._orders(kind, suited, worth):
                pieces = self._fill(kind, order, most)
                if any(pieces):
                    shown = pieces if whole else [pieces[row] for row in rows]
                    found[Pattern(name, tuple(shown), kind.cost)] = None
        return list(found)

    def _orders(self, kind: Kind, rows: Sequence[int], worth: Sequence[float]) -> Iterable[list[int]]:
        """Return orders in which to fill a machine: by worth for size, by worth, by size."""
        shares = {row: _share(self.needs[row].wanted, kind.resources) for row in rows}
        sums = {row: _sum_of_shares(self.needs[row].wanted, kind.resources) for row in rows}
        yield sorted(rows, key=lambda row: (-worth[row] / (shares[row] or 1e-9), row))
        yield sorted(rows, key=lambda row: (-worth[row] / (sums[row] or 1e-9), row))
        yield sorted(rows, key=lambda row: (-worth[row], row))
        yield sorted(rows, key=lambda row: (-shares[row], row))

    def _fill(self, kind: Kind, order: Iterable[int], most: Sequence[int]) -> list[int]:
        free, pieces = dict(kind.resources), [0] * len(self.needs)
        apart: set[str] = set()
        for row in order:
            need = self.needs[row]
            count = fits(free, need.wanted, 1 if need.apart else most[row]) if need.apart not in apart else 0
            if count:
                pieces[row] = count
                take(free, need.wanted, count)
            if count and need.apart:
                apart.add(need.apart)
        return pieces

    def _alone(self, row: int, most: int, rows: Sequence[int]) -> Pattern:
        """Return the cheapest machine for pieces of one need alone."""
        need, found = self.needs[row], []
        for name, kind in self.kinds.items():
            if row in self._suited[name]:
                found.append((fits(kind.resources, need.wanted, 1 if need.apart else most), kind))
        count, kind = min(found, key=lambda one: (one[1].cost / one[0], one[1].cost))
        return Pattern(kind.name, tuple(count if other == row else 0 for other in rows), kind.cost)

    def _widen(self, pattern: Pattern, rows: Sequence[int], width: int) -> Pattern:
        pieces = [0] * width
        for row, count in zip(rows, pattern.pieces, strict=True):
            pieces[row] = count
        return Pattern(pattern.kind, tuple(pieces), pattern.cost)

    def _exchanged(self, purchase: Purchase, room: Room) -> Purchase:
        """Exchange each machine for one of the cheapest kind that holds what is on it."""
        better = Purchase(left=purchase.left)
        counts = Counter(purchase.counts())
        for pattern, count in purchase.machines.items():
            holding = [kind for kind in self.kinds.values() if self._carries(kind, pattern)]
            for kind in sorted(holding, key=lambda one: one.cost):
                if kind.cost >= pattern.cost or not count:
                    break
                counts[pattern.kind] -= count
                moved = int(min(count, max(0.0, room(kind.name, counts))))
                counts[pattern.kind] += count
                if moved:
                    better.machines[Pattern(kind.name, pattern.pieces, kind.cost)] += moved
                    counts[kind.name] += moved
                    counts[pattern.kind] -= moved
                    count -= moved
            if count:
                better.machines[pattern] += count
        return better

    def _carries(self, kind: Kind, pattern: Pattern) -> bool:
        used: Amounts = {}
        for row, pieces in enumerate(pattern.pieces):
            if pieces:
                if row not in self._suited[kind.name]:
                    return False
                for name, units in self.needs[row].wanted.items():
                    used[name] = used.get(name, 0) + units * pieces
        return bool(fits(kind.resources, used, 1))


def _holds(kind: Kind, need: Need) -> bool:
    return need.placement.suits(kind.labels) and bool(fits(kind.resources, need.wanted, 1))


def _share(wanted: Mapping[str, int], resources: Mapping[str, int]) -> float:
    return max((units / resources[name] for name, units in wanted.items() if units), default=0.0)


def _sum_of_shares(wanted: Mapping[str, int], resources: Mapping[str, int]) -> float:
    return sum(units / resources[name] for name, units in wanted.items() if units)


def _spread(values: Sequence[float], rows: Sequence[int], width: int) -> list[float]:
    found = [0.0] * width
    for row, value in zip(rows, values, strict=True):
        found[row] = value
    return found
