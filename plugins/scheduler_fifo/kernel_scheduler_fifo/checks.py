"""Invariants that hold between two events."""

from __future__ import annotations

from kernel_scheduler_fifo.finding import Finder
from kernel_scheduler_fifo.nodes import Nodes
from kernel_scheduler_fifo.queues import ShapeQueue, ShapeQueues
from kernel_scheduler_fifo.reservations import Reservations
from kernel_spec.choosing import allows, open_nodes
from kernel_spec.ids import GroupId
from kernel_spec.scheduling import LeaseRequest


def check(nodes: Nodes, queues: ShapeQueues, finder: Finder, reservations: Reservations) -> None:
    """Raise AssertionError, naming what is wrong, when an invariant is broken."""
    nodes.validate()
    for index in (nodes.free, nodes.could):
        index.check(nodes.nodes)
    _check_holders(nodes)
    _check_queues(nodes, queues, finder, reservations)
    for kept in reservations:
        assert queues.find(kept.id) is kept.queue, f"something is kept for {kept.id.hex()}, who is gone"
        for place in kept.wants:
            assert reservations.at(place) is kept, f"node {place.node.hex()} is kept twice"
            assert nodes.is_open(place), f"node {place.node.hex()} is draining, and kept for {kept.id.hex()}"


def _check_holders(nodes: Nodes) -> None:
    counted = {id for held in nodes.holders.by_kind.values() for id in held} | nodes.holders.asked.keys()
    askable = {id for id, lease in nodes.leases.items() if not lease.request.for_actor}
    assert counted == askable, f"leases that can be asked back: {sorted(askable)}, counted: {sorted(counted)}"
    assert all(nodes.holders.by_kind.values()), "an empty kind of holders is kept"


def _check_queues(nodes: Nodes, queues: ShapeQueues, finder: Finder, reservations: Reservations) -> None:
    count = 0
    for queue in queues:
        assert queue.waiting, f"an empty line is kept for {queue.wanted}"
        numbers = [entry.number for entry in queue.waiting.values()]
        assert numbers == sorted(numbers), f"the line for {queue.wanted} is out of order: {numbers}"
        for id in queue.waiting:
            assert id not in nodes.leases, f"request {id.hex()} waits and is granted"
            assert queues.find(id) is queue, f"request {id.hex()} is not found where it waits"
            assert not queue.of_groups or nodes.groups[GroupId(id)].waiting(), f"group {id.hex()} is placed and waits"
        count += len(numbers)
        if not queue.of_groups:
            _check_front_does_not_fit(nodes, queue, finder, reservations)
    assert count == len(queues), f"{count} requests in lines, {len(queues)} known to wait"
    in_queues = {id for queue in queues.group_queues.values() for id in queue.waiting}
    waiting = {group.request.id for group in nodes.waiting_groups()}
    assert in_queues == waiting, f"groups in line {sorted(in_queues)}, groups that wait {sorted(waiting)}"


def _check_front_does_not_fit(nodes: Nodes, queue: ShapeQueue, finder: Finder, reservations: Reservations) -> None:
    request, number = queue.front.request, queue.front.number
    assert isinstance(request, LeaseRequest)
    found = finder.find(queue, queue.front)
    if found is not None:
        found[0].pool.release(found[1])
    assert found is None, f"{queue.wanted} waits although node {found[0].node.hex() if found else ''} has room"
    if queue.group is not None:
        return
    for node in open_nodes(nodes):  # without the index
        if not allows(nodes, queue.placement, queue.wanted, node):
            continue
        allocation = reservations.take(node, queue.wanted, number)
        if allocation is not None:
            node.pool.release(allocation)
        assert allocation is None, f"{queue.wanted} waits although node {node.node.hex()} has {node.pool.available}"
