"""Place what is needed into what is free: nodes that are there, that are starting, or that could be bought.

Bins that are equal are one `Bin` with a count, and needs that are equal are one `Need` with a count: so ten thousand
nodes and a hundred thousand tasks are placed in a few steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from kernel_spec.dataclass import dataclass
from kernel_spec.placement import DEFAULT, Placement
from kernel_spec.resources import UNIT, Amounts


@dataclass(frozen=True, slots=True)
class Need:
    """`count` equal pieces, each of which wants so much of one node on which `placement` allows it.

    No two pieces with the same `apart` may be on one node ("": any may). `label` names them for people.
    """

    wanted: Amounts
    count: int = 1
    placement: Placement = DEFAULT
    apart: str = ""
    label: str = ""


@dataclass(slots=True, eq=False)
class Bin:
    """`count` equal nodes with so much `free` each. `ids` names those that exist, as many as there are of them.

    `used` says whether anything was placed there. `kind` is that of machines that do not exist yet, or not quite.
    `apart` are those words of needs of which each node has a piece.
    """

    free: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    ids: tuple[str, ...] = ()
    kind: str = ""
    used: bool = False
    apart: frozenset[str] = frozenset()

    def copy(self) -> Bin:
        """Return an independent bin, to try something out on."""
        return Bin(dict(self.free), self.labels, self.count, self.ids, self.kind, self.used, self.apart)

    def split(self, count: int) -> Bin:
        """Take `count` of the nodes out, and return them as a bin of their own."""
        taken = Bin(dict(self.free), self.labels, count, self.ids[:count], self.kind, self.used, self.apart)
        self.count -= count
        self.ids = self.ids[count:]
        return taken


def whole_devices(wanted: Amounts, devices: Iterable[str]) -> Amounts:
    """Return `wanted` with each share of a device rounded up, so that as many fit as do on separate devices.

    Three shares of 0.3 fit on one GPU, and one of 0.6 does, however many GPUs there are.
    """
    found = dict(wanted)
    for name in devices:
        units = found.get(name, 0)
        if 0 < units < UNIT:
            found[name] = UNIT // (UNIT // units)
    return found


def fits(free: Mapping[str, int], wanted: Mapping[str, int], most: int) -> int:
    """Return how many pieces fit into one bin, `most` at most. What wants nothing fits any number of times."""
    for name, units in wanted.items():
        if units:
            most = min(most, free.get(name, 0) // units)
            if most <= 0:
                return 0
    return most


def take(free: Amounts, wanted: Mapping[str, int], pieces: int) -> None:
    """Take so many pieces out of a bin's resources."""
    for name, units in wanted.items():
        if units and pieces:
            free[name] -= units * pieces


def place(bins: list[Bin], needs: Sequence[Need]) -> list[Need]:
    """Place needs into `bins`, in the order of both, and return those that are left. Bins are split as necessary."""
    left = []
    for need in needs:
        missing = _place_one(bins, need)
        if missing:
            left.append(Need(need.wanted, missing, need.placement, need.apart, need.label))
    return left


def _place_one(bins: list[Bin], need: Need) -> int:
    missing = need.count
    for bin in list(bins):
        if not missing:
            break
        if need.apart in bin.apart or not need.placement.suits(bin.labels):
            continue
        each = fits(bin.free, need.wanted, 1 if need.apart else missing)
        if not each:
            continue
        full = min(bin.count, missing // each)
        is_rest = full < bin.count
        if full:
            _put(bins, bin, full, need, each)
            missing -= full * each
        if is_rest and 0 < missing < each:
            _put(bins, bin, 1, need, missing)
            missing = 0
    return missing


def _put(bins: list[Bin], bin: Bin, count: int, need: Need, pieces: int) -> None:
    """Put pieces into each of `count` nodes of a bin; they become a bin of their own, unless that is all of it."""
    if count < bin.count:
        bins.insert(bins.index(bin), bin := bin.split(count))
    take(bin.free, need.wanted, pieces)
    bin.used = True
    if need.apart:
        bin.apart |= {need.apart}


def hardest_first(needs: Iterable[Need], largest: Mapping[str, int]) -> list[Need]:
    """Return needs in the order in which to place them: those with conditions, and the largest, first.

    `largest` is how much of each resource the largest bin has.
    """

    def size(need: Need) -> tuple[bool, bool, float, float]:
        shares = [units / largest[name] if largest.get(name) else 2.0 for name, units in need.wanted.items()]
        placement = need.placement
        return bool(need.apart), bool(placement.hard or placement.choices), max(shares, default=0.0), sum(shares)

    return sorted(needs, key=size, reverse=True)


def largest_of(bins: Iterable[Amounts]) -> Amounts:
    """Return how much of each resource the largest of these has."""
    found: Amounts = {}
    for free in bins:
        for name, units in free.items():
            found[name] = max(found.get(name, 0), units)
    return found
