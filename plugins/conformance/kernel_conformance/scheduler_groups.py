"""What every scheduler promises about placement groups: all or none, where, who runs inside, and what is lost."""

from __future__ import annotations

from kernel_conformance.scheduler_suite import SchedulerSuite
from kernel_spec.ids import GroupId, NodeId
from kernel_spec.resources import UNIT
from kernel_spec.scheduling import PACK, SPREAD, STRICT_PACK, STRICT_SPREAD


class GroupConformance(SchedulerSuite):
    """Bundles, and leases in them."""

    # -- placing ---------------------------------------------------------------------------------------------------

    def test_without_placement_groups_they_wait_and_say_so(self) -> None:
        if self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        group = world.group([{"CPU": 1}])
        inside = world.request({"CPU": 1}, group=group)
        assert world.explain(group).code == "infeasible" and inside in world.waiting
        world.remove_group(group)

    def test_a_group_is_placed_whole_or_not_at_all(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 4})
        running = world.request({"CPU": 2})
        group = world.group([{"CPU": 2}, {"CPU": 2}])
        assert not world.bundles[group], "only half of it fits, so it holds nothing"
        assert world.explain(group).code == "busy"
        world.release(running)
        assert world.nodes_of(group) == [node, node], "there is room for both"
        assert world.explain(group).code == "granted"
        assert world.request({"CPU": 1}) in world.waiting, "what bundles hold is not for others"

    def test_pack_takes_few_nodes_and_spread_many(self) -> None:
        if not self.placement_groups:
            return
        for strategy, count in ((PACK, 1), (STRICT_PACK, 1), (SPREAD, 3), (STRICT_SPREAD, 3)):
            world = self.harness()
            for _ in range(4):
                world.add_node({"CPU": 4})
            group = world.group([{"CPU": 1}] * 3, strategy)
            assert len(set(world.nodes_of(group))) == count, f"{strategy} took {world.nodes_of(group)}"

    def test_only_strict_strategies_wait_for_what_they_want(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        first, second = world.add_node({"CPU": 2}), world.add_node({"CPU": 2})
        strict = [world.group([{"CPU": 1}] * 3, strategy) for strategy in (STRICT_PACK, STRICT_SPREAD)]
        for group, words in zip(strict, ("STRICT_PACK", "STRICT_SPREAD"), strict=True):
            reason = world.explain(group)
            assert reason.code == "infeasible" and words in reason.text, f"what is impossible? {reason}"
        for strategy in (PACK, SPREAD):
            group = world.group([{"CPU": 1}] * 3, strategy)
            assert set(world.nodes_of(group)) == {first, second}, f"{strategy} takes what there is"
            world.remove_group(group)
        world.add_node({"CPU": 4})
        assert all(world.bundles[group] for group in strict), "there are three nodes now, one of them large enough"

    def test_strict_spread_finds_the_only_way(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        both, gpus, plain = (world.add_node(total) for total in ({"CPU": 4, "GPU": 1}, {"GPU": 1}, {"CPU": 2}))
        group = world.group([{"CPU": 1}, {"GPU": 1}, {"CPU": 4}], STRICT_SPREAD)
        assert world.nodes_of(group) == [plain, gpus, both]

    def test_an_infeasible_group_names_the_bundle(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        group = world.group([{"CPU": 1}, {"GPU": 2}])
        reason = world.explain(group)
        assert reason.code == "infeasible" and "GPU" in reason.text, f"which bundle does not fit, and why? {reason}"
        world.add_node({"GPU": 2})
        assert len(world.bundles[group]) == 2

    def test_no_bundle_is_placed_on_a_draining_node(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        leaving = world.add_node({"CPU": 4})
        world.drain_node(leaving)
        group = world.group([{"CPU": 1}])
        assert not world.bundles[group] and world.explain(group).code == "infeasible"
        assert world.nodes_of(group) == [] and world.add_node({"CPU": 1}) in world.nodes_of(group)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def test_two_gangs_never_hold_half_each(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        for _ in range(2):
            world.add_node({"CPU": 2})
        running = [world.request({"CPU": 2}) for _ in range(2)]
        gangs = [world.group([{"CPU": 2}, {"CPU": 2}], STRICT_SPREAD) for _ in range(2)]
        world.release(running[0])
        world.tick(1.0, times=5)
        assert not any(world.bundles[gang] for gang in gangs), "one node is free, and each gang wants two"
        world.release(running[1])
        placed = [gang for gang in gangs if world.bundles[gang]]
        assert placed == gangs[:1] or (len(placed) == 1 and not self.strict_fifo)
        world.remove_group(placed[0])
        assert sum(bool(world.bundles.get(gang)) for gang in gangs) == 1

    def test_a_waiting_group_does_not_stop_leases_at_once(self) -> None:
        if not (self.placement_groups and self.passes_blocked_shapes):
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        world.request({"CPU": 2}, for_actor=True)
        world.group([{"CPU": 4}])
        assert world.request({"CPU": 1}) in world.granted, "an actor is in the group's way, and two CPUs are free"

    def test_a_group_is_not_passed_for_ever(self) -> None:
        if not (self.placement_groups and self.starvation_free):
            return
        for strategy in (PACK, STRICT_SPREAD):
            world = self.harness()
            for _ in range(2):
                world.add_node({"CPU": 4})
            running = world.request_many(8, {"CPU": 1})
            group = world.group([{"CPU": 4}, {"CPU": 4}], strategy)
            for _ in range(2000):
                world.request({"CPU": 1})
                world.release(running.pop(0))
                world.tick(0.05)
                running = list(world.granted)
                if world.bundles[group]:
                    break
                assert running, "nothing runs although requests wait"
            assert world.bundles[group], "2000 small requests were served before a group that came first"

    def test_holders_are_asked_back_for_a_group(self) -> None:
        if not (self.placement_groups and self.reclaims):
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        world.request_many(3, {"CPU": 1})
        group = world.group([{"CPU": 1}, {"CPU": 2}])
        asked = world.tick(0.5, times=20)
        assert len(set(asked)) >= 2, "a group waits while others hold what it wants"
        world.release(*asked)
        assert world.bundles[group]

    def test_a_group_that_waits_may_be_removed(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 2})
        group = world.group([{"CPU": 4}])
        world.request({"CPU": 1}, group=group)
        world.remove_group(group)
        world.remove_group(GroupId(b"stranger"))
        world.add_node({"CPU": 4}, node=node)
        assert world.explain(group).code == "unknown" and not world.granted

    # -- leases inside ---------------------------------------------------------------------------------------------

    def test_leases_in_a_group_take_from_its_bundles(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 8})
        group = world.group([{"CPU": 1}, {"CPU": 2}])
        ids = world.request_many(4, {"CPU": 1}, group=group)
        assert [id in world.granted for id in ids] == [True] * 3 + [False], "three CPUs are reserved, no more"
        assert world.request_many(6, {"CPU": 1})[-1] not in world.granted, "five CPUs are left for others"
        reason = world.explain(ids[3])
        assert reason.code in ("busy", "behind") and "CPU" in reason.text, f"what is missing in the group? {reason}"
        world.release(ids[0])
        assert ids[3] in world.granted

    def test_a_lease_runs_in_the_bundle_that_it_names(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        group = world.group([{"CPU": 1}, {"CPU": 1}])
        ids = world.request_many(2, {"CPU": 1}, group=group, bundle=1)
        assert world.granted[ids[0]].bundle == 1 and ids[1] in world.waiting, "bundle 0 is free, but was not asked for"
        assert world.explain(world.request({"CPU": 1}, group=group, bundle=2)).code == "infeasible"
        assert world.explain(world.request({"CPU": 2}, group=group, bundle=0)).code == "infeasible"
        assert world.explain(world.request({"CPU": 2}, group=group)).code == "infeasible"

    def test_a_lease_takes_the_bundle_with_least_to_spare(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 4, "GPU": 1})
        group = world.group([{"CPU": 1, "GPU": 1}, {"CPU": 1}])
        plain, with_gpu = world.request({"CPU": 1}, group=group), world.request({"CPU": 1, "GPU": 1}, group=group)
        assert world.granted[plain].bundle == 1, "what wants no device should not sit in the way of what does"
        assert world.granted[with_gpu].bundle == 0

    def test_a_lease_waits_for_its_group(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        running = world.request({"CPU": 1})
        group = world.group([{"CPU": 2}], name="gang")
        inside = world.request({"CPU": 1}, group=group)
        assert inside in world.waiting, "one CPU is free, but not in the group"
        reason = world.explain(inside)
        assert reason.code == "busy" and "gang" in reason.text, f"what does it wait for? {reason}"
        world.release(running)
        assert inside in world.granted

    def test_a_lease_that_came_before_its_group(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        id = GroupId(b"to-come.")
        inside = world.request({"CPU": 1}, group=id)
        assert world.explain(inside).code == "infeasible", "there is no such group"
        world.group([{"CPU": 1}], id=id)
        assert inside in world.granted

    def test_devices_of_a_bundle_are_given_to_leases_inside(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"GPU": 4})
        world.request({"GPU": 1})
        group = world.group([{"GPU": 2}, {"GPU": 0.5}])
        first, second = world.request_many(2, {"GPU": 1}, group=group, bundle=0)
        share = world.request({"GPU": 0.5}, group=group, bundle=1)
        devices = [world.granted[id].allocation.devices["GPU"] for id in (first, second, share)]
        assert len({*devices[0], *devices[1], *devices[2]}) == 3, f"three devices for three leases, not {devices}"

    def test_a_blocked_lease_lends_its_cpu_inside_its_bundle(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 1})
        group = world.group([{"CPU": 1}])
        parent = world.request({"CPU": 1}, group=group)
        child, stranger = world.request({"CPU": 1}, group=group), world.request({"CPU": 1})
        world.block(parent)
        assert child in world.granted and stranger in world.waiting, "what is reserved stays in the group"
        world.unblock(parent)
        world.release(child, parent)
        assert stranger in world.waiting
        world.remove_group(group)
        assert stranger in world.granted

    def test_leases_that_are_left_in_a_group_end_with_it(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        group = world.group([{"CPU": 2}])
        inside = world.request_many(2, {"CPU": 1}, group=group)
        world.block(inside[0])
        world.remove_group(group, in_order=False)
        assert [world.explain(id).code for id in inside] == ["unknown"] * 2, "their group is over, and they with it"
        world.release(*inside)
        assert world.request({"CPU": 2}) in world.granted, "what the group held is free"

    def test_groups_and_bundles_use_a_node_whose_drain_is_cancelled(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 2})
        placed = world.group([{"CPU": 1}])
        world.drain_node(node)
        inside, waiting = world.request({"CPU": 1}, group=placed), world.group([{"CPU": 1}])
        assert inside in world.waiting and not world.bundles[waiting]
        world.cancel_drain(node)
        assert inside in world.granted and world.bundles[waiting]

    def test_nothing_new_runs_in_bundles_on_a_draining_node(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 2})
        group = world.group([{"CPU": 2}])
        running = world.request({"CPU": 1}, group=group)
        world.drain_node(node)
        inside = world.request({"CPU": 1}, group=group)
        assert inside in world.waiting and running in world.granted and world.explain(inside).text
        world.add_node({"CPU": 2})
        world.remove_node(node)
        assert inside in world.granted, "the bundle was placed again elsewhere"

    # -- what is lost, and held from before ------------------------------------------------------------------------

    def test_lost_bundles_are_placed_again_elsewhere(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        nodes = [world.add_node({"CPU": 2}) for _ in range(3)]
        group = world.group([{"CPU": 2}] * 3, STRICT_SPREAD)
        inside = [world.request({"CPU": 1}, group=group, bundle=number) for number in range(3)]
        lost = world.bundles[group][1].node
        waiting = world.request({"CPU": 2}, group=group, bundle=1)
        world.remove_node(lost)
        assert inside[1] not in world.granted and inside[0] in world.granted, "only what was on the node is over"
        assert sorted(world.bundles[group]) == [0, 2], "nobody else has room"
        assert world.explain(group).code == "infeasible" and waiting in world.waiting
        new = world.add_node({"CPU": 2})
        assert world.nodes_of(group)[1] == new and {*nodes} - {lost} < {*world.nodes_of(group)}
        assert world.granted[waiting].node == new

    def test_two_gangs_that_lost_something_do_not_wait_for_each_other(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        kept, lost = world.add_node({"CPU": 2}), world.add_node({"CPU": 4})
        gangs = [world.group([{"CPU": 1}, {"CPU": 1}, {"CPU": 1}]) for _ in range(2)]
        world.remove_node(lost)
        missing = [len(world.missing_bundles(gang)) for gang in gangs]
        assert sum(missing) >= 4, f"node {kept.hex()} has two CPUs, {missing} of six bundles are missing"
        new = world.add_node({"CPU": 3})
        world.tick(1.0, times=3)
        assert any(not world.missing_bundles(gang) for gang in gangs), "there is room for one gang, both wait"
        world.add_node({"CPU": 4})
        world.tick(1.0, times=3)
        assert not any(world.missing_bundles(gang) for gang in gangs) and new in world.nodes

    def test_a_held_group_counts_and_so_do_leases_in_it(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 4, "GPU": 2})
        devices = {1: {"GPU": {1: UNIT}}}
        group = world.hold_group([{"CPU": 2}, {"CPU": 1, "GPU": 1}], {0: node, 1: node}, devices=devices)
        held = world.hold({"CPU": 1}, node, group=group, bundle=0)
        assert world.explain(group).code == "granted" and world.explain(held).code == "granted"
        waiting = world.request({"CPU": 2}, group=group, bundle=0)
        assert waiting in world.waiting and world.request({"CPU": 2}) in world.waiting
        gpu = world.request({"GPU": 1}, group=group)
        assert world.granted[gpu].allocation.devices == {"GPU": {1: UNIT}}
        world.release(held)
        assert waiting in world.granted

    def test_missing_bundles_of_a_held_group_are_placed_after_all_that_is_held(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        node = world.add_node({"CPU": 3})
        group = world.hold_group([{"CPU": 1}, {"CPU": 1}], {0: node})
        held = world.hold({"CPU": 2}, node)
        world.tick()
        assert sorted(world.bundles[group]) == [0], "a lease held from before has the rest"
        world.release(held)
        assert sorted(world.bundles[group]) == [0, 1]

    def test_a_restarted_head_knows_its_groups(self) -> None:
        if not self.placement_groups:
            return
        world = self.harness()
        lost: NodeId = world.add_node({"CPU": 2})
        world.add_node({"CPU": 2})
        placed = world.group([{"CPU": 2}, {"CPU": 1}], SPREAD)
        inside = world.request({"CPU": 1}, group=placed, bundle=1)
        waiting = world.group([{"CPU": 2}])
        wants_in = world.request({"CPU": 1}, group=waiting)
        world.restart()
        assert inside in world.granted and not world.bundles[waiting]
        world.remove_node(lost)
        world.restart()
        assert len(world.bundles[placed]) == 1, "half of it is lost, and there is no room"
        world.add_node({"CPU": 4})
        assert not world.missing_bundles(placed) and wants_in in world.granted
