"""Since when a node holds nothing: what counts, and the books under any order of events."""

from __future__ import annotations

import random

import pytest

from kernel_processes.head.idle_nodes import IdleNodes
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import (
    Bundle,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequest,
    LeaseCancelled,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    LeaseRequested,
    NodeAdded,
    NodeRemoved,
    PlaceGroup,
)

HERE, THERE = NodeId(b"here"), NodeId(b"there")
LEASE, GROUP = LeaseId(b"lease"), GroupId(b"group")
CPU = Allocation(amounts({"CPU": 1}))
REQUEST = LeaseRequest(LEASE, JobId(b"job"), ProcessId(b"driver"), amounts({"CPU": 1}))


@pytest.fixture
def nodes() -> IdleNodes:
    nodes = IdleNodes()
    nodes.see(NodeAdded(HERE, {"CPU": 2}), 1.0)
    nodes.see(NodeAdded(THERE, {"CPU": 2}), 2.0)
    return nodes


def test_a_node_is_idle_since_it_joined(nodes: IdleNodes) -> None:
    nodes.see(NodeAdded(HERE, {"CPU": 4}), 7.0)
    assert (nodes.since(HERE), nodes.since(THERE), nodes.since(NodeId(b"nowhere"))) == (1.0, 2.0, None)


def test_a_lease_stops_the_clock_where_it_is_granted_and_nowhere_else(nodes: IdleNodes) -> None:
    nodes.see(LeaseRequested(REQUEST), 3.0)
    nodes.see(LeaseCancelled(LeaseId(b"other")), 3.0)
    assert nodes.since(HERE) == 1.0, "a request that waits is on no node"
    nodes.see(Grant(LEASE, HERE, CPU), 4.0)
    assert (nodes.since(HERE), nodes.since(THERE)) == (None, 2.0)
    nodes.see(LeaseReleased(LEASE), 9.0)
    nodes.see(LeaseReleased(LEASE), 10.0)
    assert nodes.since(HERE) == 9.0


def test_bundles_stop_the_clock_of_each_of_their_nodes(nodes: IdleNodes) -> None:
    nodes.see(PlaceGroup(GROUP, (Bundle(0, HERE, CPU), Bundle(1, THERE, CPU))), 3.0)
    nodes.see(Grant(LEASE, HERE, CPU, 0), 4.0)
    nodes.see(LeaseReleased(LEASE), 5.0)
    assert (nodes.since(HERE), nodes.since(THERE)) == (None, None)
    nodes.see(GroupRemoved(GROUP), 6.0)
    assert (nodes.since(HERE), nodes.since(THERE)) == (6.0, 6.0)


def test_what_an_earlier_head_granted_counts(nodes: IdleNodes) -> None:
    nodes.see(LeaseHeld(REQUEST, Grant(LEASE, HERE, CPU)), 3.0)
    nodes.see(GroupHeld(GroupRequest(GROUP, JobId(b"job"), [{}]), [Bundle(0, THERE, CPU)]), 3.0)
    assert (nodes.since(HERE), nodes.since(THERE)) == (None, None)


def test_something_else_that_is_seen_there_begins_the_time_anew(nodes: IdleNodes) -> None:
    nodes.used(HERE, 5.0)
    nodes.used(NodeId(b"nowhere"), 5.0)
    assert nodes.since(HERE) == 5.0


def test_a_node_that_is_gone_is_forgotten(nodes: IdleNodes) -> None:
    nodes.see(Grant(LEASE, HERE, CPU), 4.0)
    nodes.see(NodeRemoved(HERE), 5.0)
    nodes.see(LeaseReleased(LEASE), 6.0)
    assert nodes.since(HERE) is None
    nodes.see(NodeAdded(HERE, {"CPU": 2}), 8.0)
    assert nodes.since(HERE) == 8.0


@pytest.mark.parametrize("seed", range(20))
def test_the_books_add_up_under_any_order(seed: int) -> None:
    dice, nodes = random.Random(seed), IdleNodes()
    ids, groups, places = ([kind(bytes([n])) for n in range(4)] for kind in (LeaseId, GroupId, NodeId))
    for now in range(300):
        lease, group, node = dice.choice(ids), dice.choice(groups), dice.choice(places)
        word = dice.choice(
            [
                NodeAdded(node, {}), NodeRemoved(node), Grant(lease, node, CPU), LeaseReleased(lease),
                PlaceGroup(group, (Bundle(dice.randrange(9), node, CPU),)), GroupRemoved(group),
            ]
        )  # fmt: skip
        if isinstance(word, Grant):  # A lease is granted once, and a bundle placed once, until they end.
            nodes.see(LeaseReleased(lease), now)
        elif isinstance(word, PlaceGroup):
            nodes.see(GroupRemoved(group), now)
        nodes.see(word, now)
        nodes.validate()
