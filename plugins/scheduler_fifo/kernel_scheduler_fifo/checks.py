"""What must hold between two events."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_scheduler_fifo.lines import Lines
from kernel_scheduler_fifo.nodes import Lease, NodeState, allowed_nodes
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import UNIT


def check(nodes: Mapping[NodeId, NodeState], leases: Mapping[LeaseId, Lease], lines: Lines) -> None:
    """Raise AssertionError, naming what is wrong, when an invariant is broken."""
    _check_leases(nodes, leases)
    for node in nodes.values():
        _check_node(node)
    _check_lines(nodes, leases, lines)


def _check_leases(nodes: Mapping[NodeId, NodeState], leases: Mapping[LeaseId, Lease]) -> None:
    on_nodes = {id: lease for node in nodes.values() for id, lease in node.leases.items()}
    assert on_nodes == dict(leases), f"leases on nodes {sorted(on_nodes)}, known leases {sorted(leases)}"
    for id, lease in leases.items():
        assert lease.grant.node in nodes, f"lease {id.hex()} is on node {lease.grant.node.hex()}, which is not there"


def _check_node(node: NodeState) -> None:
    pool, label = node.pool, f"node {node.id.hex()}"
    pool.validate()
    used: dict[str, int] = {}
    stuck: dict[str, int] = {}
    devices: dict[tuple[str, int], int] = {}
    for lease in node.leases.values():
        allocation = lease.grant.allocation
        for name, units in allocation.amounts.items():
            lent = lease.lent if name == "CPU" else 0
            used[name] = used.get(name, 0) + units - lent
        for name, units in lease.stuck_amounts().items():
            stuck[name] = stuck.get(name, 0) + units
        for name, shares in allocation.devices.items():
            for index, units in shares.items():
                devices[name, index] = devices.get((name, index), 0) + units
    for name in pool.total.keys() | pool.available.keys() | used.keys():
        expected = pool.total.get(name, 0) - used.get(name, 0)
        free = pool.available.get(name, 0)
        assert free == expected, f"{label}: {name} should have {expected} units free, has {free}"
    for (name, index), units in devices.items():
        assert units <= UNIT, f"{label}: {name} {index} is held {units} times 1/{UNIT}"
    counted = {name: units for name, units in node.stuck.items() if units}
    assert counted == stuck, f"{label}: stuck {counted}, should be {stuck}"


def _check_lines(nodes: Mapping[NodeId, NodeState], leases: Mapping[LeaseId, Lease], lines: Lines) -> None:
    count = 0
    for line in lines:
        assert line.waiting, f"an empty line is kept for {line.wanted}"
        numbers = [entry.number for entry in line.waiting.values()]
        assert numbers == sorted(numbers), f"the line for {line.wanted} is out of order: {numbers}"
        for id in line.waiting:
            assert id not in leases, f"request {id.hex()} waits and is granted"
            assert lines.find(id) is line, f"request {id.hex()} is not found where it waits"
        count += len(numbers)
        for node in allowed_nodes(line.placement, line.wanted, nodes.values(), nodes):
            free = node.pool.available
            allocation = node.acquire(line.wanted, line.front.number)
            if allocation is not None:
                node.pool.release(allocation)
            assert allocation is None, f"{line.wanted} waits although node {node.id.hex()} has {free} free"
    assert count == len(lines), f"{count} requests in lines, {len(lines)} known to wait"
    for node in nodes.values():
        if node.reservation is not None:
            kept = node.reservation
            assert lines.find(kept.id) is kept.line, f"node {node.id.hex()} is kept for {kept.id.hex()}, who is gone"
