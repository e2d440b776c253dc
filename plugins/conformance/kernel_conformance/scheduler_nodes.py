"""What every scheduler promises about several nodes: strategies, nodes that leave, and leases held from before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernel_conformance.scheduler_suite import SchedulerSuite
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import UNIT, Allocation
from kernel_spec.scheduling import GROUP_STRATEGIES, STRICT_PACK, Grant, LeaseHeld


def labels(kind: str, **conditions: Any) -> dict[str, Any]:
    """Return a strategy with conditions on labels, `kind` "hard" or "soft"."""
    return {"type": "node_labels", kind: conditions}


class NodeConformance(SchedulerSuite):
    """Many nodes, and who may go where."""

    # -- where by default ------------------------------------------------------------------------------------------

    def test_the_origin_is_taken_while_it_is_less_than_half_full(self) -> None:
        if not self.hybrid:
            return
        world = self.harness()
        first, home = world.add_node({"CPU": 8}), world.add_node({"CPU": 4})
        ids = world.request_many(4, {"CPU": 1}, origin=home)
        assert [world.granted[id].node for id in ids] == [home, home, first, first]

    def test_nodes_are_filled_one_after_the_other_up_to_half(self) -> None:
        if not self.hybrid:
            return
        world = self.harness()
        nodes = [world.add_node({"CPU": 4}) for _ in range(3)]
        ids = world.request_many(9, {"CPU": 1})
        places = [nodes.index(world.granted[id].node) for id in ids]
        assert places == [0, 0, 1, 1, 2, 2, 0, 1, 2], f"two on each, then the least full: {places}"

    def test_what_wants_no_device_leaves_nodes_with_devices_alone(self) -> None:
        if not self.hybrid:
            return
        world = self.harness()
        gpus, plain = world.add_node({"CPU": 4, "GPU": 1}), world.add_node({"CPU": 2})
        ids = world.request_many(3, {"CPU": 1})
        assert [world.granted[id].node for id in ids] == [plain, plain, gpus], "a node with devices is the last resort"
        assert world.granted[world.request({"CPU": 1, "GPU": 1})].node == gpus

    def test_the_node_with_most_bytes_of_the_arguments_is_taken(self) -> None:
        if not self.locality:
            return
        world = self.harness()
        home, some, most = world.add_node({"CPU": 4}), world.add_node({"CPU": 4}), world.add_node({"CPU": 1})
        bytes_on = {some: 1 << 20, most: 1 << 30, NodeId(b"nowhere."): 1 << 40}
        ids = world.request_many(3, {"CPU": 1}, origin=home, locality=bytes_on)
        assert [world.granted[id].node for id in ids] == [most, some, some], "most bytes first, but nobody waits for it"

    def test_a_request_follows_its_data_to_no_node_that_it_may_not_use(self) -> None:
        if not (self.locality and self.node_affinity):
            return
        world = self.harness()
        data, wished = world.add_node({"CPU": 2}), world.add_node({"CPU": 1})
        hard = {"type": "node_affinity", "node": wished.hex(), "soft": False}
        ids = world.request_many(2, {"CPU": 1}, strategy=hard, locality={data: 1 << 30})
        assert world.granted[ids[0]].node == wished and ids[1] in world.waiting

    # -- strategies ------------------------------------------------------------------------------------------------

    def test_spread_takes_the_least_loaded_node(self) -> None:
        if not self.spreads:
            return
        world = self.harness()
        nodes = [world.add_node({"CPU": 4}) for _ in range(3)]
        ids = world.request_many(6, {"CPU": 1}, strategy="SPREAD", origin=nodes[1])
        counts = [sum(world.granted[id].node == node for id in ids) for node in nodes]
        assert counts == [2, 2, 2], f"six leases spread over three nodes as {counts}"

    def test_an_affinity_is_kept(self) -> None:
        if not self.node_affinity:
            return
        world = self.harness()
        first, second = world.add_node({"CPU": 1}), world.add_node({"CPU": 2})
        hard = {"type": "node_affinity", "node": second.hex(), "soft": False}
        ids = world.request_many(3, {"CPU": 1}, strategy=hard)
        assert [world.granted[id].node for id in ids[:2]] == [second, second]
        assert ids[2] not in world.granted, f"node {first.hex()} is free, but the request may not go there"
        gone = {"type": "node_affinity", "node": "00" * 8}
        assert world.explain(world.request({"CPU": 1}, strategy={**gone, "soft": False})).code == "infeasible"
        soft = world.request({"CPU": 1}, strategy={**gone, "soft": True})
        assert world.granted[soft].node == first, "a soft affinity for a node that is not there goes elsewhere"

    def test_a_request_that_waits_for_a_node_is_granted_when_it_comes(self) -> None:
        if not self.node_affinity:
            return
        world = self.harness()
        other, node = world.add_node({"CPU": 1}), NodeId(b"to-come.")
        id = world.request({"CPU": 1}, strategy={"type": "node_affinity", "node": node.hex(), "soft": False})
        world.add_node({"CPU": 1}, node=node)
        assert world.granted[id].node == node != other

    def test_hard_conditions_on_labels_are_kept(self) -> None:
        if not self.node_labels:
            return
        world = self.harness()
        nodes = {
            name: world.add_node({"CPU": 9}, labels=given)
            for name, given in {"bare": {}, "a": {"zone": "a"}, "b": {"zone": "b", "disk": "ssd"}}.items()
        }
        table: list[tuple[dict[str, Any], str]] = [
            (labels("hard", zone="b"), "b"),
            (labels("hard", zone=["b", "c"]), "b"),
            (labels("hard", zone={"in": ["a"]}), "a"),
            (labels("hard", zone={"not_in": ["a", "b"]}), "bare"),
            (labels("hard", zone={"exists": False}), "bare"),
            (labels("hard", disk={"exists": True}), "b"),
            (labels("hard", zone={"exists": True, "not_in": ["b"]}), "a"),
            (labels("hard", zone=["a", "b"], disk="ssd"), "b"),
        ]
        for strategy, name in table:
            id = world.request({"CPU": 1}, strategy=strategy)
            assert world.granted[id].node == nodes[name], f"{strategy} should have gone to the node {name}"
        nowhere = world.request({"CPU": 1}, strategy=labels("hard", zone="c"))
        reason = world.explain(nowhere)
        assert reason.code == "infeasible" and "zone" in reason.text, f"which label is wrong? {reason}"
        world.add_node({"CPU": 9}, node=nodes["a"], labels={"zone": "c"})
        assert world.granted[nowhere].node == nodes["a"], "the node has the label now"

    def test_of_choices_among_labels_the_first_that_has_room_is_taken(self) -> None:
        if not self.node_labels:
            return
        world = self.harness()
        nodes = {zone: world.add_node({"CPU": 1}, labels={"zone": zone}) for zone in "cba"}
        for spread in (False, True):
            choices = {"type": "node_labels", "choices": [{"zone": "a"}, {"zone": "b"}], "spread": spread}
            ids = world.request_many(3, {"CPU": 1}, strategy=choices)
            assert [world.granted[id].node for id in ids[:2]] == [nodes["a"], nodes["b"]]
            assert ids[2] not in world.granted, "no choice has the third node"
            world.release(ids[1])
            assert world.granted[ids[2]].node == nodes["b"], "a later choice is one, too"
            for id in (ids[0], ids[2]):
                world.release(id)
        nowhere = world.request({"CPU": 1}, strategy={"type": "node_labels", "choices": [{"zone": "x"}, {"zone": "y"}]})
        assert world.explain(nowhere).code == "infeasible"

    def test_bundles_lie_on_nodes_with_the_labels_that_they_want(self) -> None:
        if not (self.node_labels and self.placement_groups):
            return
        for strategy in GROUP_STRATEGIES:
            world = self.harness()
            nodes = {zone: world.add_node({"CPU": 2}, labels={"zone": zone}) for zone in "abc"}
            both = "b" if strategy == STRICT_PACK else "c"
            labels = ({"zone": ["b", "c"]}, {"zone": both})
            group = world.group([{"CPU": 1}, {"CPU": 1}], strategy, labels=labels)
            placed = {index: bundle.node for index, bundle in world.bundles[group].items()}
            assert placed[1] == nodes[both], f"{strategy}: bundle 1 wants a node with {labels[1]}"
            assert placed[0] in (nodes["b"], nodes["c"]), f"{strategy}: bundle 0 wants a node with {labels[0]}"
            never = world.group([{"CPU": 1}], strategy, labels=({"zone": "z"},))
            assert not world.bundles[never]
            reason = world.explain(never)
            assert reason.code == "infeasible" and "labels" in reason.text, f"which label is wrong? {reason}"
            late = world.add_node({"CPU": 1}, labels={"zone": "z"})
            assert world.bundles[never][0].node == late, "a node with the label came"

    def test_an_affinity_with_conditions_on_labels_keeps_both(self) -> None:
        if not (self.node_labels and self.node_affinity):
            return
        world = self.harness()
        a, b = (world.add_node({"CPU": 4}, labels={"zone": zone}) for zone in "ab")
        at_a = {"type": "node_affinity", "node": a.hex()}
        right = world.request({"CPU": 1}, strategy={**at_a, "labels": {"zone": "a"}})
        soft = world.request({"CPU": 1}, strategy={**at_a, "labels": {"zone": "b"}, "soft": True})
        never = world.request({"CPU": 1}, strategy={**at_a, "labels": {"zone": "b"}})
        assert (world.granted[right].node, world.granted[soft].node) == (a, b)
        assert never not in world.granted and world.explain(never).code == "infeasible"

    def test_soft_conditions_on_labels_are_wishes(self) -> None:
        if not self.node_labels:
            return
        world = self.harness()
        plain, fast = world.add_node({"CPU": 8}), world.add_node({"CPU": 1}, labels={"disk": "ssd"})
        ids = world.request_many(2, {"CPU": 1}, strategy=labels("soft", disk="ssd"))
        assert [world.granted[id].node for id in ids] == [fast, plain]

    def test_strange_strategies_break_nothing(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 9}, labels={"zone": "a"})
        strange: list[Any] = [
            "FASTEST",
            {"type": "tomorrow"},
            {"type": "node_affinity"},
            {"type": "node_affinity", "node": 3},
            {"type": "node_labels", "hard": {"zone": 3}},
            {"type": "node_labels", "hard": "zone"},
        ]
        for strategy in strange:
            id = world.request({"CPU": 1}, strategy=strategy)
            assert world.explain(id).code in ("granted", "infeasible"), f"{strategy}: {world.explain(id)}"

    # -- nodes that leave ------------------------------------------------------------------------------------------

    def test_leases_of_a_removed_node_are_gone(self) -> None:
        world = self.harness()
        lost = world.add_node({"CPU": 2})
        old = world.request_many(2, {"CPU": 1})
        new = world.request({"CPU": 1})
        world.remove_node(lost)
        assert world.explain(old[0]).code == "unknown"
        world.add_node({"CPU": 1})
        assert list(world.granted) == [new], "the waiting request goes to the new node, the lost leases nowhere"

    def test_nothing_new_is_granted_on_a_draining_node(self) -> None:
        world = self.harness()
        leaving = world.add_node({"CPU": 2})
        running = world.request({"CPU": 1})
        world.drain_node(leaving)
        world.drain_node(NodeId(b"nowhere."))
        waiting = world.request({"CPU": 1})
        assert waiting in world.waiting and running in world.granted, "what it holds goes on, and nothing is added"
        assert world.explain(waiting).code == "infeasible", "there is no node that it could go to"
        world.block(running)
        world.unblock(running)
        world.release(running)
        world.tick(5.0)
        world.add_node({"CPU": 3}, node=leaving)
        assert waiting in world.waiting, "a node that is about to leave is not filled again"
        staying = world.add_node({"CPU": 1})
        assert world.granted[waiting].node == staying
        world.remove_node(leaving)
        assert waiting in world.granted

    def test_a_node_whose_drain_is_cancelled_is_filled_again(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 2})
        world.cancel_drain(node)
        world.cancel_drain(NodeId(b"nowhere."))
        running = world.request({"CPU": 1})
        world.drain_node(node)
        first, second = world.request_many(2, {"CPU": 1})
        world.cancel_drain(node)
        assert first in world.granted and second in world.waiting, "there is room for one"
        world.release(running)
        assert second in world.granted

    def test_an_affinity_for_a_draining_node(self) -> None:
        if not self.node_affinity:
            return
        world = self.harness()
        staying, leaving = world.add_node({"CPU": 2}), world.add_node({"CPU": 1})
        soft, hard = ({"type": "node_affinity", "node": leaving.hex(), "soft": soft} for soft in (True, False))
        world.request({"CPU": 1}, strategy=hard)
        waits_softly, waits = world.request({"CPU": 1}, strategy=soft), world.request({"CPU": 1}, strategy=hard)
        assert waits_softly in world.waiting, "its node could hold it, later"
        world.drain_node(leaving)
        assert world.granted[waits_softly].node == staying, "its node will not take it any more"
        assert waits in world.waiting and world.explain(waits).code == "infeasible"

    # -- what is held from before ----------------------------------------------------------------------------------

    def test_a_held_lease_counts_and_ends_as_any_other(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 2})
        held = world.hold({"CPU": 2}, node)
        waiting = world.request({"CPU": 1})
        assert waiting in world.waiting and world.explain(held).code == "granted"
        world.release(held)
        assert waiting in world.granted
        world.hold({"CPU": 1}, node)
        assert world.request({"CPU": 1}) in world.waiting

    def test_a_held_device_is_given_to_nobody_else(self) -> None:
        world = self.harness()
        node = world.add_node({"GPU": 2})
        world.hold({"GPU": 1}, node, devices={"GPU": {1: UNIT}})
        id = world.request({"GPU": 1})
        assert world.granted[id].allocation.devices == {"GPU": {0: UNIT}}
        assert world.request({"GPU": 0.5}) in world.waiting

    def test_a_held_lease_may_be_blocked(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 1})
        held = world.hold({"CPU": 1}, node, blocked=True)
        child = world.request({"CPU": 1})
        assert child in world.granted, "the CPU of a blocked lease is lent"
        world.unblock(held)
        world.release(child)
        assert world.request({"CPU": 1}) in world.waiting

    def test_more_may_be_held_than_there_is(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 1})
        held = [world.hold({"CPU": 1}, node) for _ in range(3)]
        waiting = world.request({"CPU": 1})
        world.release(*held[:2])
        assert waiting in world.waiting, "one CPU, one lease that is left"
        world.release(held[2])
        assert waiting in world.granted

    def test_a_held_lease_on_a_lost_node_is_nothing(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 1})
        world.remove_node(node)
        lost = replace(world.requests[world.request({"CPU": 1})], id=LeaseId(b"lost...."))
        world.feed(LeaseHeld(lost, Grant(lost.id, node, Allocation({"CPU": UNIT}))))
        assert world.explain(lost.id).code == "unknown"

    def test_a_restarted_head_goes_on_where_it_was(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 4, "GPU": 1})
        leaving = world.add_node({"CPU": 2})
        running = world.request_many(5, {"CPU": 1})
        world.request({"GPU": 0.5}, for_actor=True)
        world.block(running[0])
        world.drain_node(leaving)
        waiting = world.request_many(3, {"CPU": 2})
        world.restart()
        while not all(id in world.order for id in waiting):
            assert world.granted, "nothing runs, and somebody waits"
            world.release(*list(world.granted))
        assert [id for id in world.order if id in waiting] == waiting or not self.strict_fifo
        assert all(grant.node != leaving for grant in world.granted.values())
