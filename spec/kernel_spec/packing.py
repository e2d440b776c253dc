"""Choose nodes for the bundles of a placement group: for all of them, or for none, with the reason.

`pack` takes the resources from the pools that it is given, so that no other request can take them in between.
STRICT_SPREAD is solved exactly. To fit bundles of many sizes on a few nodes, or shares on a few devices, is a hard
(bin packing) problem: it is solved by a quick heuristic, and for small groups by a limited search.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import NodeId
from kernel_spec.resources import Allocation, Amounts, ResourcePool, describe
from kernel_spec.scheduling import SPREAD, STRICT_PACK, STRICT_SPREAD, Bundle

MOST_STEPS = 500
"""Maximum number of steps of the search when the heuristics have failed."""
SMALL_GROUP = 8
"""Maximum number of bundles of a group for which the search is tried."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a group does not fit, and the number of the bundle that does not (-1: all together)."""

    bundle: int
    text: str


def pack(
    bundles: Mapping[int, Amounts],
    strategy: str,
    pools: Mapping[NodeId, ResourcePool],
    beside: Collection[NodeId] = (),
    only: Callable[[int, NodeId], bool] | None = None,
) -> tuple[Bundle, ...] | Misfit:
    """Take all `bundles` (by number) from `pools` and return where they are, or take nothing and return why not.

    `pools` are in the order of preference. `beside` are nodes that hold other bundles of the same group. `only` says
    whether a bundle, by number, may go to a node (None: all may). An unknown strategy means PACK.
    """
    tries = _Tries(pools)
    kinds = _kinds(bundles, pools, only)
    if strategy == STRICT_PACK:
        done = _on_one(tries, kinds, beside)
    elif strategy == STRICT_SPREAD:
        done = _each_alone(tries, kinds, beside)
    elif strategy == SPREAD:
        done = _each_alone(tries, kinds, beside) or _evenly(tries, kinds, beside) or _in_any_way(tries, kinds)
    else:
        done = _on_few(tries, kinds, beside) or _in_any_way(tries, kinds)
    if not done:
        return _why_not(kinds, strategy, pools, beside)
    return tuple(Bundle(index, *tries.taken[index]) for index in sorted(tries.taken))


@dataclass(slots=True)
class _Kind:
    """Numbers of equal bundles, and the nodes where they may go (None: any)."""

    wanted: Amounts
    numbers: list[int]
    nodes: frozenset[NodeId] | None = None

    def allows(self, node: NodeId) -> bool:
        return self.nodes is None or node in self.nodes


class _Tries:
    """The tentative placement of bundles."""

    def __init__(self, pools: Mapping[NodeId, ResourcePool]) -> None:
        self.pools = pools
        self.taken: dict[int, tuple[NodeId, Allocation]] = {}

    def put(self, number: int, wanted: Amounts, node: NodeId) -> bool:
        allocation = self.pools[node].acquire(wanted)
        if allocation is not None:
            self.taken[number] = node, allocation
        return allocation is not None

    def undo(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            node, allocation = self.taken.pop(number)
            self.pools[node].release(allocation)

    def fill(self, node: NodeId, kinds: Sequence[_Kind]) -> list[int]:
        """Put as many unplaced bundles on `node` as fit, and return their numbers."""
        done = []
        for kind in kinds:
            for number in kind.numbers if kind.allows(node) else ():
                if number in self.taken:
                    continue
                if not self.put(number, kind.wanted, node):
                    break
                done.append(number)
        return done


def _kinds(
    bundles: Mapping[int, Amounts],
    pools: Mapping[NodeId, ResourcePool],
    only: Callable[[int, NodeId], bool] | None,
) -> list[_Kind]:
    """Group equal bundles, and return the kind that is hardest to place first."""
    kinds: dict[tuple[frozenset[tuple[str, int]], frozenset[NodeId] | None], _Kind] = {}
    for number in sorted(bundles):
        wanted = bundles[number]
        nodes = frozenset(node for node in pools if only(number, node)) if only is not None else None
        kinds.setdefault((frozenset(wanted.items()), nodes), _Kind(wanted, [], nodes)).numbers.append(number)
    if len(kinds) == 1:
        return list(kinds.values())
    most: Amounts = {}
    for pool in pools.values():
        for name, units in pool.total.items():
            most[name] = max(most.get(name, 0), units)

    def size(kind: _Kind) -> tuple[int, float, float]:
        shares = [units / (most.get(name) or 1) for name, units in kind.wanted.items()]
        rare = sum(not pool.total.get(name) for name in kind.wanted for pool in pools.values())
        if kind.nodes is not None:
            rare += len(pools) - len(kind.nodes)
        return rare, max(shares, default=0.0), sum(shares)

    return sorted(kinds.values(), key=size, reverse=True)


def _on_one(tries: _Tries, kinds: Sequence[_Kind], beside: Collection[NodeId]) -> bool:
    count = sum(len(kind.numbers) for kind in kinds)
    for node in [node for node in tries.pools if not beside or node in beside]:
        done = tries.fill(node, kinds)
        if len(done) == count:
            return True
        tries.undo(done)
    return False


def _each_alone(tries: _Tries, kinds: Sequence[_Kind], beside: Collection[NodeId]) -> bool:
    """Give each bundle a node of its own; a placed bundle moves to another node if that makes room.

    This is bipartite matching by augmenting paths.
    """
    free = [node for node in tries.pools if node not in beside]
    if sum(len(kind.numbers) for kind in kinds) > len(free):
        return False
    holder: dict[NodeId, tuple[int, _Kind]] = {}
    fitting = [
        [node for node in free if kind.allows(node) and not tries.pools[node].missing(kind.wanted)] for kind in kinds
    ]
    able = {id(kind): nodes for kind, nodes in zip(kinds, fitting, strict=True)}
    for kind, nodes in zip(kinds, fitting, strict=True):
        unused = iter(nodes)
        for number in kind.numbers:
            node = next((node for node in unused if node not in holder), None)
            if node is not None:
                holder[node] = number, kind
            elif not _move_on(number, kind, holder, able):
                return False
    for node, (number, kind) in holder.items():
        tries.put(number, kind.wanted, node)
    return True


def _move_on(
    number: int, kind: _Kind, holder: dict[NodeId, tuple[int, _Kind]], able: Mapping[int, Sequence[NodeId]]
) -> bool:
    """Find an augmenting path, on which each bundle takes the next one's node and the last a free one; apply it."""
    came_from: dict[NodeId, NodeId | None] = {}
    waiting: list[tuple[NodeId | None, _Kind]] = [(None, kind)]
    for source, mover in waiting:
        for node in able[id(mover)]:
            if node in came_from:
                continue
            came_from[node] = source
            if node in holder:
                waiting.append((node, holder[node][1]))
                continue
            at: NodeId = node
            while (before := came_from[at]) is not None:
                holder[at] = holder[before]
                at = before
            holder[at] = number, kind
            return True
    return False


def _evenly(tries: _Tries, kinds: Sequence[_Kind], beside: Collection[NodeId]) -> bool:
    """Put each bundle on the node with the fewest bundles of the group."""
    counts = [(sum(node == other for other in beside), place, node) for place, node in enumerate(tries.pools)]
    heapq.heapify(counts)
    for kind in kinds:
        full = []
        for number in kind.numbers:
            while counts and not (kind.allows(counts[0][2]) and tries.put(number, kind.wanted, counts[0][2])):
                full.append(heapq.heappop(counts))
            if not counts:
                tries.undo(list(tries.taken))
                return False
            heapq.heapreplace(counts, (counts[0][0] + 1, *counts[0][1:]))
        for entry in full:
            heapq.heappush(counts, entry)
    return True


def _on_few(tries: _Tries, kinds: Sequence[_Kind], beside: Collection[NodeId]) -> bool:
    """Fill the node that takes most of the remaining bundles, repeatedly; nodes with bundles of the group first."""

    def takes(node: NodeId) -> int:
        done = tries.fill(node, kinds)
        tries.undo(done)
        return len(done)

    left = sum(len(kind.numbers) for kind in kinds)
    for node in tries.pools:
        if node in beside:
            left -= len(tries.fill(node, kinds))
    # The number that a node takes only shrinks while others are filled: recompute it only for the best one so far.
    counts = [(-left, place, node) for place, node in enumerate(tries.pools)]
    while left and counts:
        before, place, node = heapq.heappop(counts)
        count = takes(node)
        if count >= min(-before, left):
            left -= len(tries.fill(node, kinds))
        elif count:
            heapq.heappush(counts, (-count, place, node))
    if left:
        tries.undo(list(tries.taken))
    return not left


def _in_any_way(tries: _Tries, kinds: Sequence[_Kind]) -> bool:
    """Search all placements of a small group, up to MOST_STEPS steps."""
    order = [(number, kind) for kind in kinds for number in kind.numbers]
    if len(order) > SMALL_GROUP:
        return False
    steps = iter(range(MOST_STEPS))

    def place(at: int) -> bool:
        if at == len(order):
            return True
        number, kind = order[at]
        for node in tries.pools:
            if next(steps, None) is None:
                return False
            if kind.allows(node) and tries.put(number, kind.wanted, node):
                if place(at + 1):
                    return True
                tries.undo([number])
        return False

    return place(0)


def _why_not(
    kinds: Sequence[_Kind], strategy: str, pools: Mapping[NodeId, ResourcePool], beside: Collection[NodeId]
) -> Misfit:
    for kind in kinds:
        if kind.nodes is not None and not kind.nodes:
            return Misfit(kind.numbers[0], f"no node has the labels that bundle {kind.numbers[0]} wants")
    for number, wanted, able in _able(kinds, pools):
        if not able:
            return Misfit(number, f"no node has room for bundle {number} ({describe(wanted)})")
    count = sum(len(kind.numbers) for kind in kinds)
    if strategy == STRICT_PACK:
        total = describe(total_of([kind.wanted for kind in kinds for _ in kind.numbers]))
        where = "the node that holds the rest of the group has not" if beside else "no node has"
        return Misfit(-1, f"{where} room for all {count} bundles together ({total}), as STRICT_PACK wants")
    if strategy == STRICT_SPREAD:
        some = {node for _, _, nodes in _able(kinds, pools) for node in nodes if node not in beside}
        text = f"STRICT_SPREAD wants a node of its own for each of {count} bundles"
        other = "other " if beside else ""
        if len(some) < count:
            have = f"{other}node has" if len(some) == 1 else f"{other}nodes have"
            return Misfit(-1, f"{text}, and {len(some)} {have} room for any of them")
        return Misfit(-1, f"{text}, and too few {other}nodes have room for the larger ones")
    return Misfit(-1, f"each of the {count} bundles has room somewhere, but all of them together have not")


def _able(kinds: Sequence[_Kind], pools: Mapping[NodeId, ResourcePool]) -> Iterator[tuple[int, Amounts, list[NodeId]]]:
    for kind in kinds:
        able = [node for node in pools if kind.allows(node) and not pools[node].missing(kind.wanted)]
        yield kind.numbers[0], kind.wanted, able


def total_of(bundles: Iterable[Amounts]) -> Amounts:
    """Return the sum of all bundles."""
    total: Amounts = {}
    for wanted in bundles:
        for name, units in wanted.items():
            total[name] = total.get(name, 0) + units
    return total
