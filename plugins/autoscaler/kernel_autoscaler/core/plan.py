"""Plan what a cluster should have: what is needed is placed, what finds no place is bought, what is untouched may go.

The order says what comes first: what waits goes to nodes that are there, then to those that are starting, then to those
that are about to leave, and only then to new ones. Bundles that were asked for in advance count on whole nodes, busy or
not. A node is kept if anything was placed on it: so what is taken away never has to be bought again for the same needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from kernel_autoscaler.core.bins import Bin, Need, hardest_first, largest_of, place, take, whole_devices
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.packing import Purchase, cheapest
from kernel_autoscaler.core.snapshot import WaitingGroup, WaitingShape
from kernel_spec.dataclass import dataclass
from kernel_spec.placement import DEFAULT
from kernel_spec.resources import Amounts, describe
from kernel_spec.scheduling import STRICT_PACK, STRICT_SPREAD


@dataclass(frozen=True, slots=True)
class Unmet:
    """What gets no machine, and why: text for people, of which the first words name what it is."""

    what: str
    why: str


@dataclass(slots=True)
class Plan:
    """What to buy, by kind, which leaving nodes to keep, which nodes are not needed, and what can't be served.

    `spare` says of each kind how many machines that are coming nothing was placed on.
    """

    buy: dict[str, int] = field(default_factory=dict)
    keep: list[str] = field(default_factory=list)
    untouched: set[str] = field(default_factory=set)
    spare: dict[str, int] = field(default_factory=dict)
    unmet: list[Unmet] = field(default_factory=list)


@dataclass(slots=True)
class Market:
    """What can be bought: the kinds, why there are none of some (`closed`), and what the latest of some `failed` by.

    `room(kind, bought)` says how many more of a kind there may be, when so many of each are `bought` already.
    """

    kinds: Sequence[Kind]
    room: Callable[[str, Mapping[str, int]], float]
    closed: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def why_none(self, kind: str) -> str:
        """Return why no more of a kind can be bought now."""
        latest = f"; the latest has failed: {self.failed[kind]}" if kind in self.failed else ""
        return self.closed.get(kind) or f"there may be no more of it{latest}"


def needs_of(shapes: Iterable[WaitingShape], within: float, devices: Sequence[str]) -> list[Need]:
    """Return what waits as needs. What waits for a certain node is left out: no other node helps it."""
    return [
        Need(
            whole_devices(shape.wanted, devices),
            shape.workers(within),
            shape.placement,
            label=f"{', '.join(shape.names) or 'requests'} ({describe(shape.wanted)})",
        )
        for shape in shapes
        if not shape.placement.problem and (shape.placement.node is None or shape.placement.soft)
    ]


def needs_of_group(group: WaitingGroup, devices: Sequence[str]) -> list[Need]:
    """Return the bundles of a group that wait, as needs: one together where they must be on one node."""
    waiting = {number: whole_devices(group.bundles[number], devices) for number in group.waiting()}
    label = f"placement group {group.id[:8]}"
    if group.strategy == STRICT_PACK:
        whole: Amounts = {}
        for bundle in group.bundles.values():
            for name, units in bundle.items():
                whole[name] = whole.get(name, 0) + units
        placement = next(iter(group.placements.values()), DEFAULT)
        return [Need(whole, 1, placement, label=f"{label} ({describe(whole)})")]
    apart = group.id if group.strategy == STRICT_SPREAD else ""
    equal: dict[tuple[tuple[tuple[str, int], ...], int], list[int]] = {}
    for number, bundle in waiting.items():
        key = tuple(sorted(bundle.items())), id(group.placements.get(number, DEFAULT))
        equal.setdefault(key, []).append(number)
    return [
        Need(
            waiting[numbers[0]],
            len(numbers),
            group.placements.get(numbers[0], DEFAULT),
            apart,
            f"{label} ({describe(waiting[numbers[0]])})",
        )
        for numbers in equal.values()
    ]


class Planner:
    """Makes one plan. `free` are bins of what is free, `leaving` those of nodes that drain, `whole` those of all nodes.

    Existing nodes are named by the bins' ids, once in `free` or `leaving` and once in `whole`.
    """

    def __init__(self, free: list[Bin], leaving: list[Bin], whole: list[Bin], market: Market) -> None:
        self._free = free
        self._leaving = leaving
        self._whole = whole
        self._market = market
        self._bought: dict[str, int] = {}
        self.plan = Plan()

    def keep_apart(self, apart: str, nodes: Iterable[str]) -> None:
        """Note that these nodes have pieces of a need whose pieces are to be apart."""
        for node in nodes:
            for bin in [bin for bins in (self._free, self._leaving) for bin in bins if node in bin.ids]:
                place = self._free if bin in self._free else self._leaving
                bin.ids = (node, *(id for id in bin.ids if id != node))
                if bin.count > 1:
                    place.append(bin := bin.split(1))
                bin.apart |= {apart}

    def serve(self, needs: Sequence[Need], groups: Sequence[Sequence[Need]]) -> None:
        """Find places for what waits: single needs, and groups, each of which is served whole or not at all."""
        if self._serve([*(need for group in groups for need in group), *needs], whole=bool(groups)):
            return
        for group in groups:
            self._serve(group, whole=True, tell=True)
        self._serve(needs)

    def _serve(self, needs: Sequence[Need], whole: bool = False, tell: bool = False) -> bool:
        """Place and buy for needs; return whether that was done. With `whole` it is not unless all can be served."""
        tiers = [[bin.copy() for bin in bins] for bins in (self._free, self._leaving)]
        left = self._placed(tiers, needs)
        purchase = cheapest(left, self._market.kinds, self._room)
        if whole and any(purchase.left):
            if tell:
                self._tell(left, purchase.left)
                if any(self._may_be_had(need) for need, count in zip(left, purchase.left, strict=True) if count):
                    self._free, self._leaving = tiers  # What there is waits for the rest, which comes later.
            return False
        self._free, self._leaving = tiers
        self._buy(left, purchase)
        self._tell(left, purchase.left)
        return True

    def serve_asked(self, needs: Sequence[Need]) -> None:
        """Have whole nodes enough for bundles that were asked for in advance."""
        left = self._placed([self._whole], needs)
        purchase = cheapest(left, self._market.kinds, self._room)
        self._buy(left, purchase)
        self._tell(left, purchase.left)

    def serve_minimum(self, kind: str, missing: int) -> None:
        """Buy so many machines because there are always to be so many of the kind."""
        count = int(min(missing, max(0.0, self._room(kind, {}))))
        if count:
            self._bought[kind] = self._bought.get(kind, 0) + count
        if count < missing:
            why = self._market.why_none(kind)
            self.plan.unmet.append(Unmet(f"{missing - count} x the minimum of kind {kind}", why))

    def bought(self, kind: str) -> int:
        """Return how many machines of a kind the plan buys so far."""
        return self._bought.get(kind, 0)

    def finish(self) -> Plan:
        """Return the plan."""
        used = {id for bins in (self._free, self._leaving, self._whole) for bin in bins if bin.used for id in bin.ids}
        self.plan.untouched = {id for bin in self._free for id in bin.ids} - used
        self.plan.keep = sorted(used.intersection(id for bin in self._leaving for id in bin.ids))
        self.plan.buy = dict(self._bought)
        free, whole = _untouched_machines(self._free), _untouched_machines(self._whole)
        self.plan.spare = {kind: min(count, whole.get(kind, 0)) for kind, count in free.items()}
        return self.plan

    def _placed(self, tiers: Sequence[list[Bin]], needs: Sequence[Need]) -> list[Need]:
        largest = largest_of([bin.free for tier in tiers for bin in tier] + [k.resources for k in self._market.kinds])
        left = hardest_first(needs, largest)
        for tier in tiers:
            left = place(tier, left)
        return left

    def _buy(self, needs: Sequence[Need], purchase: Purchase) -> None:
        """Count what is bought; what stays free there serves what comes next."""
        kinds = {kind.name: kind for kind in self._market.kinds}
        for pattern, count in purchase.machines.items():
            kind = kinds[pattern.kind]
            self._bought[kind.name] = self._bought.get(kind.name, 0) + count
            self._whole.append(Bin(dict(kind.resources), kind.labels, count, kind=kind.name, used=True))
            rest = Bin(dict(kind.resources), kind.labels, count, kind=kind.name, used=True)
            for need, pieces in zip(needs, pattern.pieces, strict=True):
                take(rest.free, need.wanted, pieces)
                if pieces and need.apart:
                    rest.apart |= {need.apart}
            self._free.append(rest)

    def _room(self, kind: str, bought: Mapping[str, int]) -> float:
        return self._market.room(kind, {**self._bought, **{k: n + self._bought.get(k, 0) for k, n in bought.items()}})

    def _may_be_had(self, need: Need) -> bool:
        """Return whether a kind that can hold it is only closed for a while."""
        return any(kind.name in self._market.closed and not _lacks(kind, need.wanted) for kind in self._suited(need))

    def _suited(self, need: Need) -> list[Kind]:
        return [kind for kind in self._market.kinds if need.placement.suits(kind.labels)]

    def _tell(self, needs: Sequence[Need], left: Sequence[int]) -> None:
        for need, count in zip(needs, left, strict=True):
            if count:
                self.plan.unmet.append(Unmet(f"{count} x {need.label}", self._why(need)))

    def _why(self, need: Need) -> str:
        suited = self._suited(need)
        able = [kind for kind in suited if not _lacks(kind, need.wanted)]
        if not self._market.kinds:
            return "no kind of machine is configured"
        if not suited:
            return f"no kind of machine has {need.placement.wanted_labels}"
        if not able:
            nearest = max(suited, key=lambda kind: (_share(kind, need.wanted), -kind.cost))
            lacks = ", ".join(_lacks(nearest, need.wanted))
            return f"no kind of machine is large enough: {nearest.name}, the nearest, lacks {lacks}"
        reasons = {kind.name: self._market.why_none(kind.name) for kind in able}
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _untouched_machines(bins: Iterable[Bin]) -> dict[str, int]:
    """Return how many machines of each kind, of those that are not there yet, nothing was placed on."""
    found: dict[str, int] = {}
    for bin in bins:
        if bin.kind and not bin.used:
            found[bin.kind] = found.get(bin.kind, 0) + bin.count
    return found


def _share(kind: Kind, wanted: Amounts) -> float:
    """Return how much of what is wanted a kind has, added up over the resources."""
    return sum(min(1.0, kind.resources.get(name, 0) / units) for name, units in wanted.items() if units)


def _lacks(kind: Kind, wanted: Amounts) -> list[str]:
    missing = {name: units - kind.resources.get(name, 0) for name, units in wanted.items()}
    return [describe({name: units}) for name, units in missing.items() if units > 0]
