"""Why a request waits, in a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_scheduler_fifo.lines import Line, Lines
from kernel_scheduler_fifo.nodes import Lease, NodeState, allowed_nodes
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import Amounts, describe, from_units
from kernel_spec.scheduling import LeaseRequest, Reason

HOLDERS_NAMED = 5
"""How many holders of a resource are named at most."""


def explain_lease(
    id: LeaseId, now: float, lines: Lines, leases: Mapping[LeaseId, Lease], nodes: Mapping[NodeId, NodeState]
) -> Reason:
    """Say why the request `id` waits."""
    if id in leases:
        grant = leases[id].grant
        return Reason("granted", f"it holds {describe(grant.allocation.amounts)} on node {grant.node.hex()}")
    line = lines.find(id)
    if line is None:
        return Reason("unknown", f"the scheduler knows no request {id.hex()}: it ended, or never reached this node")
    impossible = _infeasible(line, nodes)
    if impossible:
        return Reason("infeasible", impossible)
    front = line.front
    if front.request.id != id:
        place = list(line.waiting).index(id) + 1
        _, text = _front_waits(line, nodes)
        return Reason(
            "behind",
            f"it is number {place} in line for {describe(line.wanted)}, first come, first served; "
            f"the first in line, {_name(front.request)}, has waited {now - front.since:.1f} s: {text}",
        )
    return Reason(*_front_waits(line, nodes))


def _infeasible(line: Line, nodes: Mapping[NodeId, NodeState]) -> str:
    """Return why no node could ever hold what `line` wants, or nothing when one could."""
    if not nodes:
        return f"it wants {describe(line.wanted)}, and there is no node yet"
    allowed = allowed_nodes(line.placement, line.wanted, nodes.values(), nodes)
    if not allowed:
        wanted_node = line.placement.node or b""
        return f"it wants node {wanted_node.hex()}, which is not there, and its node affinity is not soft"
    if any(node.pool.fits_ever(line.wanted) for node in allowed):
        return ""
    lacking = [text for name, units in line.wanted.items() if (text := _lacks(name, units, allowed))]
    if not lacking:
        best = min(allowed, key=lambda node: sum(_short_of(node, line.wanted).values()))
        short = describe(_short_of(best, line.wanted))
        lacking = [f"each resource is on some node, all together on none; node {best.id.hex()} lacks {short}"]
    only = line.placement.node is not None and not line.placement.soft
    where = f"node {allowed[0].id.hex()}, the only one allowed, never has" if only else "no node ever has"
    return (
        f"{where} {describe(line.wanted)}: {'; '.join(lacking)}. "
        "It waits until a node has that much; add one, or ask for less"
    )


def _lacks(name: str, units: int, nodes: list[NodeState]) -> str:
    if any(node.pool.fits_ever({name: units}) for node in nodes):
        return ""
    most = max(nodes, key=lambda node: node.pool.total.get(name, 0))
    quantity = most.pool.total.get(name, 0)
    wanted = f"it wants {name}: {from_units(units):g}"
    if quantity >= units:
        return f"{wanted}, but {name} comes in whole devices or shares of one"
    if not quantity:
        return f"{wanted}, and there is none"
    return f"{wanted}, and the most on one node is {from_units(quantity):g} (node {most.id.hex()})"


def _short_of(node: NodeState, wanted: Amounts) -> Amounts:
    total = node.pool.total
    return {name: units - total.get(name, 0) for name, units in wanted.items() if units > total.get(name, 0)}


def _front_waits(line: Line, nodes: Mapping[NodeId, NodeState]) -> tuple[str, str]:
    """Return code and sentence for the front of a line that some node could hold."""
    allowed = allowed_nodes(line.placement, line.wanted, nodes.values(), nodes)
    able = [node for node in allowed if node.pool.fits_ever(line.wanted)]
    best = min(able, key=lambda node: sum(node.pool.missing(line.wanted).values()))
    missing = best.pool.missing(line.wanted)
    if not missing and best.reservation is not None:
        older = best.reservation.line.waiting[best.reservation.id].request
        return "behind", (
            f"node {best.id.hex()} has room, but it is kept for {_name(older)}, which wants "
            f"{describe(older.wanted)} and was passed by others too often"
        )
    parts = [_taken(name, best) for name in sorted(missing)]
    others = f"; {len(able) - 1} other nodes are as full" if len(able) > 1 else ""
    return "busy", f"it wants {describe(line.wanted)}: on node {best.id.hex()} {'; '.join(parts)}{others}"


def _taken(name: str, node: NodeState) -> str:
    held: dict[str, int] = {}
    for lease in node.leases.values():
        units = lease.grant.allocation.amounts.get(name, 0)
        if name == "CPU":
            units -= lease.lent
        if units:
            who = _name(lease.request)
            held[who] = held.get(who, 0) + units
    largest = sorted(held.items(), key=lambda item: -item[1])
    names = ", ".join(f"{who} ({from_units(units):g})" for who, units in largest[:HOLDERS_NAMED])
    more = f" and {len(held) - HOLDERS_NAMED} more" if len(held) > HOLDERS_NAMED else ""
    free, total = node.pool.available.get(name, 0), node.pool.total.get(name, 0)
    return f"{from_units(max(free, 0)):g} of {from_units(total):g} {name} is free, held by {names}{more}"


def _name(request: LeaseRequest) -> str:
    return request.name or f"lease {request.id.hex()}"
