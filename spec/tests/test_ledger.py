"""The ledger: what events change, what it returns, what it hears, and how it reasons."""

from __future__ import annotations

import pytest

from kernel_spec.choosing import place_group, places_for
from kernel_spec.holdings import Lease, NodePlace
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.ledger import Ledger
from kernel_spec.packing import Misfit
from kernel_spec.reasons import explain
from kernel_spec.resources import UNIT, Allocation, amounts
from kernel_spec.scheduling import (
    PACK,
    STRICT_SPREAD,
    Bundle,
    Grant,
    GroupHeld,
    GroupRemoved,
    GroupRequest,
    GroupRequested,
    LeaseBlocked,
    LeaseHeld,
    LeaseReleased,
    LeaseRequest,
    NodeAdded,
    NodeDraining,
    NodeRemoved,
    ResourceChanged,
    Tick,
)

NODE, OTHER = NodeId(b"node...1"), NodeId(b"node...2")
GROUP = GroupId(b"group...")


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.apply(NodeAdded(NODE, {"CPU": 4, "GPU": 2}, {"zone": "a"}))
    return ledger


def request(name: str, **fields: object) -> LeaseRequest:
    wanted = fields.pop("wanted", {"CPU": UNIT})
    id = LeaseId(name.encode().ljust(8, b"."))
    return LeaseRequest(id, JobId(b"job....."), ProcessId(b"driver.."), wanted, name, **fields)  # type: ignore[arg-type]


def granted(ledger: Ledger, name: str, **fields: object) -> LeaseId:
    wish = request(name, **fields)
    place = next(iter(places_for(ledger, wish)))
    allocation = place.pool.acquire(wish.wanted)
    assert allocation is not None
    ledger.grant(wish, place, allocation)
    ledger.validate()
    return wish.id


def group(*bundles: dict[str, float], strategy: str = PACK) -> GroupRequest:
    return GroupRequest(GROUP, JobId(b"job....."), [amounts(bundle) for bundle in bundles], strategy, "gang")


def test_events_return_where_something_may_fit_now(ledger: Ledger) -> None:
    node = ledger.nodes[NODE]
    id = granted(ledger, "lease")
    assert ledger.apply(LeaseBlocked(id)) == (node,)
    assert ledger.apply(LeaseReleased(id)) == (node,)
    assert ledger.apply(ResourceChanged(NODE, "blue", 1)) == (node,)
    assert ledger.apply(ResourceChanged(NODE, "GPU", 9)) == (), "devices do not change by hand"
    assert ledger.apply(LeaseReleased(id)) == () and ledger.apply(Tick()) == ()
    assert ledger.apply(NodeDraining(OTHER)) == () and ledger.apply(NodeRemoved(OTHER)) == ()
    ledger.apply(GroupRequested(group({"CPU": 1}, {"CPU": 1})))
    place_group(ledger, ledger.groups[GROUP])
    assert ledger.apply(GroupRemoved(GROUP)) == [node], "once, though it held two bundles"
    ledger.validate()


def test_an_index_hears_of_every_change() -> None:
    class Index(Ledger):
        def __init__(self) -> None:
            super().__init__()
            self.received: list[str] = []

        def on_node(self, node: NodePlace) -> None:
            self.received.append("node" if node.node in self.nodes else "gone")

        def on_free(self, node: NodePlace) -> None:
            self.received.append("free")

        def on_lease(self, lease: Lease, granted: bool) -> None:
            self.received.append("granted" if granted else "over")

    ledger = Index()
    ledger.apply(NodeAdded(NODE, {"CPU": 4}))
    id = granted(ledger, "lease")
    ledger.apply(LeaseReleased(id))
    ledger.apply(GroupRequested(group({"CPU": 1})))
    place_group(ledger, ledger.groups[GROUP])
    granted(ledger, "inside", group=GROUP)
    ledger.apply(NodeDraining(NODE))
    ledger.apply(NodeRemoved(NODE))
    expected = ["node", "free", "granted", "free", "over", "free", "granted", "node", "over", "gone"]
    assert ledger.received == expected


def test_a_held_lease_finds_the_bundle_that_it_fits(ledger: Ledger) -> None:
    bundles = [
        Bundle(0, NODE, Allocation(amounts({"GPU": 1}), {"GPU": {0: UNIT}})),
        Bundle(1, NODE, Allocation(amounts({"GPU": 1}), {"GPU": {1: UNIT}})),
    ]
    ledger.apply(GroupHeld(group({"GPU": 1}, {"GPU": 1}), bundles))
    held = request("held", wanted={"GPU": UNIT}, group=GROUP)
    ledger.apply(LeaseHeld(held, Grant(held.id, NODE, Allocation(held.wanted, {"GPU": {1: UNIT}}))))
    assert ledger.leases[held.id].place is ledger.groups[GROUP].bundles[1]
    lost = request("lost", group=GROUP)
    ledger.apply(LeaseHeld(lost, Grant(lost.id, NODE, Allocation(lost.wanted), 7)))
    assert lost.id not in ledger.leases, "there is no such bundle (any more)"
    ledger.validate()


def test_what_is_wrong_is_named(ledger: Ledger) -> None:
    granted(ledger, "lease")
    ledger.nodes[NODE].pool.available["CPU"] = 5
    with pytest.raises(AssertionError, match=f"node {NODE.hex()}: CPU should have 30000 units free, has 5"):
        ledger.validate()


def test_groups_avoid_devices_that_they_do_not_want(ledger: Ledger) -> None:
    ledger.apply(NodeAdded(OTHER, {"CPU": 1}))
    ledger.apply(GroupRequested(group({"CPU": 1})))
    placed = place_group(ledger, ledger.groups[GROUP])
    assert not isinstance(placed, Misfit) and placed.bundles[0].node == OTHER


# -- reasons -----------------------------------------------------------------------------------------------------------


def why(ledger: Ledger, **fields: object) -> tuple[str, str]:
    wish = request("wish", **fields)
    reason = explain(ledger, wish.id, wish)
    return reason.code, reason.text


def labels(**hard: object) -> dict[str, object]:
    return {"type": "node_labels", "hard": hard}


def test_why_a_lease_waits(ledger: Ledger) -> None:
    granted(ledger, "train", wanted={"CPU": 3 * UNIT})
    ledger.apply(GroupRequested(group({"CPU": 1})))
    place_group(ledger, ledger.groups[GROUP])
    there = f"node {NODE.hex()}"
    assert why(ledger) == (
        "busy",
        f"it wants CPU: 1: on {there} 0 of 4 CPU is free, held by train (3), placement group {GROUP.hex()} (1)",
    )
    assert why(ledger, strategy=labels(zone="b")) == (
        "infeasible",
        "it wants a node with zone in (b), and there is none",
    )
    assert why(ledger, strategy=labels(zone="a"), wanted={"blue": UNIT}) == (
        "infeasible",
        "no node with zone in (a) ever has blue: 1: it wants blue: 1, and there is none. "
        "It waits until a node has that much; add one, or ask for less",
    )
    assert why(ledger, strategy={"type": "node_affinity", "node": 3}) == (
        "infeasible",
        "its scheduling strategy can't be understood: a node is given by its id, 16 hexadecimal digits, not 3",
    )
    ledger.apply(NodeDraining(NODE))
    assert why(ledger) == ("infeasible", "it wants CPU: 1, and every node is about to leave and takes nothing new")
    assert why(ledger, strategy={"type": "node_affinity", "node": NODE.hex()}) == (
        "infeasible",
        f"it wants {there}, which takes nothing new and is about to leave, and its node affinity is not soft",
    )


def test_why_a_lease_in_a_group_waits(ledger: Ledger) -> None:
    assert why(ledger, group=GROUP) == (
        "infeasible",
        f"it is to run in placement group {GROUP.hex()}, which is not there: it was removed",
    )
    ledger.apply(GroupRequested(group({"CPU": 1}, {"CPU": 2})))
    ledger.apply(NodeAdded(NODE, {"CPU": 3}))
    blocker = granted(ledger, "train")
    code, text = why(ledger, group=GROUP)
    assert code == "busy" and text.startswith("it waits for placement group gang, which is not placed: it wants 1 x ")
    ledger.apply(LeaseReleased(blocker))
    place_group(ledger, ledger.groups[GROUP])
    assert why(ledger, group=GROUP, bundle=5) == (
        "infeasible",
        "it wants bundle 5 of placement group gang, which has 2",
    )
    assert why(ledger, group=GROUP, wanted={"CPU": 3 * UNIT}) == (
        "infeasible",
        "no bundle of placement group gang ever has CPU: 3; bundle 1 has CPU: 2. "
        "Ask for less, or for a group with larger bundles",
    )
    granted(ledger, "inside", group=GROUP, bundle=0)
    assert why(ledger, group=GROUP, bundle=0) == (
        "busy",
        f"it wants CPU: 1: on node {NODE.hex()} in bundle 0 0 of 1 CPU is free, held by inside (1)",
    )
    ledger.apply(NodeDraining(NODE))
    assert why(ledger, group=GROUP) == (
        "busy",
        "it waits for placement group gang, whose node takes nothing new and is about to leave",
    )


def test_why_a_group_waits(ledger: Ledger) -> None:
    ledger.apply(GroupRequested(group({"CPU": 3}, {"CPU": 3}, strategy=STRICT_SPREAD)))
    assert explain(ledger, GROUP).text == (
        "it wants 2 x (CPU: 3) (STRICT_SPREAD): even with nothing else running STRICT_SPREAD wants a node of its own "
        "for each of 2 bundles, and 1 node has room for any of them. "
        "It waits until a node has that much; add one, or ask for less"
    )
    ledger.apply(NodeAdded(OTHER, {"CPU": 3}))
    running = granted(ledger, "train", wanted={"CPU": 2 * UNIT}, strategy={"type": "node_affinity", "node": NODE.hex()})
    assert explain(ledger, GROUP).text == (
        "it wants 2 x (CPU: 3) (STRICT_SPREAD): for now STRICT_SPREAD wants a node of its own for each of 2 bundles, "
        f"and 1 node has room for any of them; on node {NODE.hex()} 2 of 4 CPU is free, held by train (2)"
    )
    ledger.apply(LeaseReleased(running))
    assert explain(ledger, GROUP).text.endswith("there is room, and it is about to be placed")
    place_group(ledger, ledger.groups[GROUP])
    reason = explain(ledger, GROUP)
    assert reason.code == "granted" and reason.text.startswith("its 2 bundles are reserved on ")
    ledger.apply(NodeRemoved(OTHER))
    reason = explain(ledger, GROUP)
    assert reason.code == "infeasible" and reason.text.startswith("1 of its 2 bundles (STRICT_SPREAD): ")
    ledger.apply(NodeDraining(NODE))
    assert explain(ledger, GROUP).text.endswith("and there is no node that takes anything new")
    assert explain(ledger, GroupId(b"stranger")).code == "unknown"
