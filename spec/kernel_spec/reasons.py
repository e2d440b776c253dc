"""Explain why a request waits, by a code for programs and a sentence for people.

These explanations hold for any scheduler: that no node could ever hold a request, or which resources are missing and
which leases hold them. A scheduler with a queue adds the position in it (code `behind`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernel_spec.choosing import allows, bundles_for, nodes_for_group, open_nodes, right_nodes
from kernel_spec.holdings import BundlePlace, Group, NodePlace, Place
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.packing import Misfit, pack, total_of
from kernel_spec.placement import Placement, placement_of
from kernel_spec.resources import Amounts, ResourcePool, describe, from_units, quantities
from kernel_spec.scheduling import STRICT_PACK, LeaseRequest, Reason

HOLDERS_NAMED = 5
"""Maximum number of holders of a resource that are named."""
GOES_ON = "It waits until a node has that much; add one, or ask for less"


def explain(ledger: Ledger, id: LeaseId | GroupId, waiting: LeaseRequest | None = None) -> Reason:
    """Explain what the lease or the group `id` holds or waits for; `waiting` is the request of a waiting lease."""
    if waiting is not None:
        return why_lease_waits(ledger, waiting)
    lease, group = ledger.leases.get(LeaseId(id)), ledger.groups.get(GroupId(id))
    if lease is not None:
        held = describe(lease.grant.allocation.amounts)
        return Reason("granted", f"it holds {held} on node {lease.grant.node.hex()}")
    if group is None:
        return Reason("unknown", f"the scheduler knows no request {id.hex()}: it ended, or never reached it")
    if group.waiting():
        return why_group_waits(ledger, group)
    nodes = dict.fromkeys(place.node.hex() for place in group.bundles.values())
    return Reason("granted", f"its {len(group.bundles)} bundles are reserved on {', '.join(nodes)}")


def why_lease_waits(ledger: Ledger, request: LeaseRequest) -> Reason:
    """Explain why a request for a lease waits: what is missing, how much of it, where, and who holds it."""
    if request.group is not None:
        return _in_group(ledger, request)
    placement = placement_of(request.strategy)
    impossible = _infeasible(ledger, request.wanted, placement)
    if impossible:
        return Reason("infeasible", impossible)
    nodes = [node for node in open_nodes(ledger) if allows(ledger, placement, request.wanted, node)]
    able = [node for node in nodes if node.pool.fits_ever(request.wanted)]
    return Reason("busy", _busy(request.wanted, able))


def best_place(places: Sequence[Place], wanted: Amounts) -> Place:
    """Return the place that lacks least of the wanted resources."""
    return min(places, key=lambda place: sum(place.pool.missing(wanted).values()))


def why_group_waits(ledger: Ledger, group: Group) -> Reason:
    """Explain why the unplaced bundles of a placement group wait."""
    request, waiting = group.request, group.waiting()
    beside = [place.node for place in group.bundles.values()]
    what = f"{len(waiting)} of its {len(request.bundles)} bundles" if beside else f"it wants {_bundles(waiting)}"
    nodes = nodes_for_group(ledger, request)
    if not nodes:
        return Reason("infeasible", f"{what} ({request.strategy}), and there is no node that takes anything new")
    empty = {node.node: node.pool.emptied() for node in nodes}
    right = right_nodes(ledger, group)
    never = pack(waiting, request.strategy, empty, beside, right)
    if isinstance(never, Misfit):
        text = f"even with nothing else running {never.text}"
        return Reason("infeasible", f"{what} ({request.strategy}): {text}. {GOES_ON}")
    now = pack(waiting, request.strategy, {node.node: node.pool.copy() for node in nodes}, beside, right)
    if not isinstance(now, Misfit):
        return Reason("busy", f"{what} ({request.strategy}): there is room, and it is about to be placed")
    short = waiting[now.bundle] if now.bundle >= 0 else max(waiting.values(), key=lambda wanted: sum(wanted.values()))
    if request.strategy == STRICT_PACK:
        short = total_of(waiting.values())
    best = best_place([node for node in nodes if node.pool.missing(short)] or nodes, short)
    taken = "; ".join(_taken(name, best) for name in sorted(best.pool.missing(short) or short))
    return Reason("busy", f"{what} ({request.strategy}): for now {now.text}; on node {best.node.hex()} {taken}")


def name_of(request: LeaseRequest) -> str:
    """Return the name of a request for messages."""
    return request.name or f"lease {request.id.hex()}"


# -- leases ------------------------------------------------------------------------------------------------------------


def _in_group(ledger: Ledger, request: LeaseRequest) -> Reason:
    assert request.group is not None
    group = ledger.groups.get(request.group)
    if group is None:
        return Reason(
            "infeasible", f"it is to run in placement group {request.group.hex()}, which is not there: it was removed"
        )
    label, bundles = _group_label(group), group.request.bundles
    if request.bundle >= len(bundles):
        return Reason("infeasible", f"it wants bundle {request.bundle} of {label}, which has {len(bundles)}")
    names = (request.bundle,) if request.bundle >= 0 else range(len(bundles))
    if not any(ResourcePool(quantities(bundles[index])).fits_ever(request.wanted) for index in names):
        most = max(names, key=lambda index: sum(bundles[index].get(name, 0) for name in request.wanted))
        which = f"bundle {most}" if request.bundle >= 0 else "no bundle"
        text = f"{which} of {label} ever has {describe(request.wanted)}; bundle {most} has {describe(bundles[most])}"
        return Reason("infeasible", f"{text}. Ask for less, or for a group with larger bundles")
    able = [place for place in bundles_for(ledger, request) if place.pool.fits_ever(request.wanted)]
    if able:
        return Reason("busy", _busy(request.wanted, able))
    if group.waiting():
        reason = why_group_waits(ledger, group)
        return Reason(reason.code, f"it waits for {label}, which is not placed: {reason.text}")
    return Reason("busy", f"it waits for {label}, whose node takes nothing new and is about to leave")


def _infeasible(ledger: Ledger, wanted: Amounts, placement: Placement) -> str:
    """Return why no node could ever hold the wanted resources, or "" when one could."""
    if placement.problem:
        return f"its scheduling strategy can't be understood: {placement.problem}"
    if not ledger.nodes:
        return f"it wants {describe(wanted)}, and there is no node yet"
    nodes = open_nodes(ledger)
    allowed = [node for node in nodes if allows(ledger, placement, wanted, node)]
    if not allowed:
        return _nowhere(ledger, wanted, placement)
    if any(node.pool.fits_ever(wanted) for node in allowed):
        return ""
    lacking = [text for name, units in wanted.items() if (text := _lacks(name, units, allowed))]
    if not lacking:
        best = min(allowed, key=lambda node: sum(_short_of(node, wanted).values()))
        short = describe(_short_of(best, wanted))
        lacking = [f"each resource is on some node, all together on none; node {best.node.hex()} lacks {short}"]
    where = "no node ever has"
    if placement.node is not None and not placement.soft:
        where = f"node {allowed[0].node.hex()}, the only one allowed, never has"
    elif placement.wanted_labels:
        where = f"no node with {placement.wanted_labels} ever has"
    return f"{where} {describe(wanted)}: {'; '.join(lacking)}. {GOES_ON}"


def _nowhere(ledger: Ledger, wanted: Amounts, placement: Placement) -> str:
    if placement.node is not None and not placement.soft:
        node = ledger.nodes.get(placement.node)
        if node is not None and not placement.suits(node.labels):
            return (
                f"it wants node {placement.node.hex()} with {placement.wanted_labels}, and that has {dict(node.labels)}"
            )
        state = "takes nothing new and is about to leave" if placement.node in ledger.nodes else "is not there"
        return f"it wants node {placement.node.hex()}, which {state}, and its node affinity is not soft"
    if placement.wanted_labels and len(open_nodes(ledger)):
        return f"it wants a node with {placement.wanted_labels}, and there is none"
    return f"it wants {describe(wanted)}, and every node is about to leave and takes nothing new"


def _lacks(name: str, units: int, nodes: Sequence[NodePlace]) -> str:
    if any(node.pool.fits_ever({name: units}) for node in nodes):
        return ""
    most = max(nodes, key=lambda node: node.pool.total.get(name, 0))
    quantity = most.pool.total.get(name, 0)
    wanted = f"it wants {name}: {from_units(units):g}"
    if quantity >= units:
        return f"{wanted}, but {name} comes in whole devices or shares of one"
    if not quantity:
        return f"{wanted}, and there is none"
    return f"{wanted}, and the most on one node is {from_units(quantity):g} (node {most.node.hex()})"


def _short_of(node: NodePlace, wanted: Amounts) -> Amounts:
    total = node.pool.total
    return {name: units - total.get(name, 0) for name, units in wanted.items() if units > total.get(name, 0)}


def _busy(wanted: Amounts, able: Sequence[Place]) -> str:
    best = best_place(able, wanted)
    parts = [_taken(name, best) for name in sorted(best.pool.missing(wanted))]
    kind = "bundles" if isinstance(best, BundlePlace) else "nodes"
    others = f"; {len(able) - 1} other {kind} are as full" if len(able) > 1 else ""
    where = f"in bundle {best.bundle.index} " if isinstance(best, BundlePlace) else ""
    free = "there is room, and it is about to be granted"
    return f"it wants {describe(wanted)}: on node {best.node.hex()} {where}{'; '.join(parts) or free}{others}"


# -- holders -----------------------------------------------------------------------------------------------------------


def _taken(name: str, place: Place) -> str:
    held: Amounts = {}
    for lease in place.leases.values():
        units = lease.holds(name)
        if units:
            held[name_of(lease.request)] = held.get(name_of(lease.request), 0) + units
    for key, bundle in place.bundles.items() if isinstance(place, NodePlace) else ():
        units = bundle.bundle.allocation.amounts.get(name, 0)
        if units:
            label = f"placement group {key[0].hex()}"
            held[label] = held.get(label, 0) + units
    largest = sorted(held.items(), key=lambda item: -item[1])
    names = ", ".join(f"{who} ({from_units(units):g})" for who, units in largest[:HOLDERS_NAMED])
    more = f" and {len(held) - HOLDERS_NAMED} more" if len(held) > HOLDERS_NAMED else ""
    free, total = place.pool.available.get(name, 0), place.pool.total.get(name, 0)
    by = f", held by {names}{more}" if held else ""
    return f"{from_units(max(free, 0)):g} of {from_units(total):g} {name} is free{by}"


def _bundles(waiting: dict[int, Amounts]) -> str:
    counts: dict[str, int] = {}
    for wanted in waiting.values():
        counts[describe(wanted)] = counts.get(describe(wanted), 0) + 1
    return " and ".join(f"{count} x ({text})" for text, count in counts.items())


def _group_label(group: Group) -> str:
    return f"placement group {group.request.name or group.request.id.hex()}"
