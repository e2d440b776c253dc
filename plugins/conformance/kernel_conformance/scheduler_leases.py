"""What every scheduler promises about leases on one node: order, blocked workers, devices, asking back, questions."""

from __future__ import annotations

from kernel_conformance.scheduler_suite import SchedulerSuite
from kernel_spec.ids import LeaseId, NodeId
from kernel_spec.resources import amounts
from kernel_spec.scheduling import NodeAdded, ResourceChanged, Scheduler


class LeaseConformance(SchedulerSuite):
    """One node, many who want something of it."""

    # -- the contract ----------------------------------------------------------------------------------------------

    def test_is_a_scheduler_with_a_name(self) -> None:
        scheduler = type(self).make_scheduler()
        assert isinstance(scheduler, Scheduler), f"{type(scheduler).__name__} lacks a method of the Scheduler protocol"
        assert isinstance(scheduler.name, str) and scheduler.name, "a scheduler needs a name"

    def test_grants_at_once_what_fits(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 2})
        ids = world.request_many(2, {"CPU": 1})
        assert list(world.granted) == ids, "two requests for one CPU fit on a node with two"

    def test_a_request_that_came_before_the_node_is_granted_when_it_comes(self) -> None:
        world = self.harness()
        id = world.request({"CPU": 1})
        world.add_node({"CPU": 1})
        assert id in world.granted, "the node came, and the request still waits"

    def test_a_release_makes_room(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        first, second = world.request_many(2, {"CPU": 1})
        assert list(world.granted) == [first], "one CPU, one lease"
        world.release(first)
        assert list(world.granted) == [second], "the CPU is free, and the second request still waits"

    def test_a_request_for_nothing_is_granted_on_a_full_node(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        world.request({"CPU": 1})
        assert world.request({}) in world.granted, "a request that wants nothing always fits"

    def test_requests_alike_are_served_in_order(self) -> None:
        if not self.strict_fifo:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        ids = world.request_many(20, {"CPU": 1})
        while world.granted:
            world.release(next(iter(world.granted)))
        assert world.order == ids, "requests alike were not served in the order they came"

    def test_a_large_request_does_not_stop_small_ones(self) -> None:
        if not self.passes_blocked_shapes:
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        world.request({"CPU": 1})
        large = world.request({"CPU": 4})
        small = world.request({"CPU": 1})
        assert large in world.waiting and small in world.granted, "one CPU was free and asked for"

    def test_a_large_request_is_not_passed_for_ever(self) -> None:
        if not self.starvation_free:
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        running = world.request_many(4, {"CPU": 1})
        large = world.request({"CPU": 4})
        for _ in range(2000):
            world.request({"CPU": 1})
            world.release(running.pop(0))
            world.tick(0.05)
            running = [id for id in world.granted if id != large]
            if large in world.granted:
                return
            assert running, "nothing runs although requests wait"
        raise AssertionError("2000 small requests were served before a large one that came first")

    def test_cancelled_requests_are_never_granted(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        ids = world.request_many(5, {"CPU": 1})
        world.cancel(ids[2])
        world.cancel(ids[1])
        while world.granted:
            world.release(next(iter(world.granted)))
        assert world.order == [ids[0], ids[3], ids[4]] or not self.strict_fifo

    def test_unknown_ids_are_ignored(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        id = world.request({"CPU": 1})
        stranger = LeaseId(b"stranger")
        for act in (world.cancel, world.release, world.block, world.unblock):
            act(stranger)
        world.remove_node(NodeId(b"nowhere."))
        world.cancel(id)
        assert list(world.granted) == [id], "cancelling a granted lease changes nothing: it must be released"
        assert world.explain(stranger).code == "unknown"

    def test_a_released_lease_is_forgotten(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        id = world.request({"CPU": 1})
        world.release(id, id)
        assert world.explain(id).code == "unknown"
        assert not world.scheduler.snapshot().granted

    # -- blocked workers -------------------------------------------------------------------------------------------

    def test_a_blocked_lease_lends_its_cpu_and_nothing_else(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1, "GPU": 1, "memory": 100, "blue": 1})
        parent = world.request({"CPU": 1, "GPU": 1, "memory": 100, "blue": 1})
        child, *others = [world.request(wanted) for wanted in ({"CPU": 1}, {"GPU": 1}, {"memory": 1}, {"blue": 1})]
        world.block(parent)
        world.block(parent)
        assert child in world.granted, "the parent's CPU was lent"
        assert not any(id in world.granted for id in others), "only CPU is lent"
        world.unblock(parent)
        world.unblock(parent)
        again = world.request({"CPU": 1})
        world.release(child)
        assert again in world.waiting, "the parent runs again, so its CPU is taken"
        world.release(parent)
        assert again in world.granted and all(id in world.granted for id in others)

    def test_a_blocked_lease_may_end(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        parent = world.request({"CPU": 1})
        world.block(parent)
        world.release(parent)
        ids = world.request_many(2, {"CPU": 1})
        assert list(world.granted) == ids[:1], "a CPU that was lent and then given back counts once"

    def test_nested_requests_on_one_cpu_all_run(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        chain = []
        for _ in range(20):
            id = world.request({"CPU": 1})
            assert id in world.granted, "the parent waits for its child, so the child must run"
            world.block(id)
            chain.append(id)
        for id in reversed(chain):
            world.unblock(id)
            world.release(id)

    # -- devices and custom resources ------------------------------------------------------------------------------

    def test_shares_of_a_device_lie_on_one_device(self) -> None:
        world = self.harness()
        world.add_node({"GPU": 2})
        ids = world.request_many(5, {"GPU": 0.4})
        assert len(world.granted) == 4, "two shares of 0.4 fit on each of two devices, a fifth on none"
        world.cancel(ids[4])
        assert world.request({"GPU": 1}) in world.waiting, "no device is whole"

    def test_whole_devices_are_disjoint(self) -> None:
        world = self.harness()
        world.add_node({"GPU": 4})
        world.request_many(2, {"GPU": 2})
        devices = [index for grant in world.granted.values() for index in grant.allocation.devices["GPU"]]
        assert sorted(devices) == [0, 1, 2, 3], f"four devices for two requests of two, got {devices}"

    def test_a_node_says_which_of_its_resources_are_devices(self) -> None:
        world = self.harness()
        node = NodeId(b"node-tpu")
        world.nodes[node], world.labels[node] = amounts({"CPU": 1, "TPU": 2}), {}
        world.feed(NodeAdded(node, {"CPU": 1, "TPU": 2}, {}, ("TPU",)))
        ids = world.request_many(3, {"TPU": 0.6})
        assert len(world.granted) == 2, "a share of 0.6 fits once on each of two devices, however much is left in all"
        devices = [world.granted[id].allocation.devices for id in ids[:2]]
        assert sorted(index for held in devices for index in held.get("TPU", {})) == [0, 1], f"which devices? {devices}"

    def test_a_custom_resource_can_come_and_go(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 1})
        id = world.request({"blue": 2})
        assert world.explain(id).code == "infeasible"
        world.set_resource(node, "blue", 2)
        assert id in world.granted, "the resource came, and the request still waits"
        world.set_resource(node, "blue", 0)
        other = world.request({"blue": 1})
        world.release(id)
        assert other in world.waiting, "the resource is gone"
        assert world.explain(other).code == "infeasible"

    def test_devices_do_not_change_at_run_time(self) -> None:
        world = self.harness()
        node = world.add_node({"GPU": 1})
        world.feed(ResourceChanged(node, "GPU", 2))
        world.feed(ResourceChanged(NodeId(b"nowhere."), "blue", 2))
        world.request_many(2, {"GPU": 1})
        assert len(world.granted) == 1, "how many devices a node has is not set by hand"

    # -- asking back -----------------------------------------------------------------------------------------------

    def test_holders_are_asked_back_for_others_once(self) -> None:
        if not self.reclaims:
            return
        world = self.harness()
        world.add_node({"CPU": 4})
        held = world.request_many(4, {"CPU": 1}, requester="greedy")
        waiting = world.request({"CPU": 2}, requester="modest")
        world.tick(0.5, times=20)
        assert len(set(world.reclaimed)) >= 2, "somebody waits while others hold what is wanted"
        assert len(set(world.reclaimed)) == len(world.reclaimed), "a holder was asked twice"
        world.release(*world.reclaimed)
        assert waiting in world.granted
        assert set(world.reclaimed) <= set(held)

    def test_own_kind_and_actors_are_not_asked_back(self) -> None:
        if not self.reclaims:
            return
        world = self.harness()
        world.add_node({"CPU": 2, "GPU": 1})
        world.request({"CPU": 1}, requester="one")
        world.request({"CPU": 1}, requester="two", for_actor=True)
        world.request({"CPU": 1}, requester="one")
        world.tick(0.5, times=20)
        assert not world.reclaimed, "swapping one worker for another of the same kind and holder helps nobody"

    def test_nobody_is_asked_back_while_nobody_waits(self) -> None:
        if not self.reclaims:
            return
        world = self.harness()
        world.add_node({"CPU": 2})
        held = world.request_many(2, {"CPU": 1}, requester="greedy")
        world.tick(0.5, times=20)
        waiting = world.request({"CPU": 2}, requester="modest")
        world.cancel(waiting)
        world.tick(0.5, times=20)
        assert not world.reclaimed, "nobody deserves more than the holders what they hold"
        assert list(world.granted) == held

    # -- questions -------------------------------------------------------------------------------------------------

    def test_explains_in_the_agreed_codes(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 2})
        granted = world.request({"CPU": 2}, name="holder_of_all")
        busy = world.request({"CPU": 1}, name="first_in_line")
        behind = world.request({"CPU": 1})
        never = world.request({"CPU": 3})
        assert world.explain(granted).code == "granted"
        reason = world.explain(busy)
        assert reason.code == "busy", f"expected busy, got {reason}"
        assert "CPU" in reason.text and "holder_of_all" in reason.text, f"what is missing, who has it? {reason.text}"
        assert world.explain(behind).code in ("behind", "busy")
        reason = world.explain(never)
        assert reason.code == "infeasible" and "CPU" in reason.text, f"expected infeasible, got {reason}"
        world.add_node({"CPU": 5})
        assert never in world.granted, "a larger node came"

    def test_snapshot_is_a_copy_of_the_truth(self) -> None:
        world = self.harness()
        node = world.add_node({"CPU": 2})
        first, second = world.request({"CPU": 2}), world.request({"CPU": 1})
        snapshot = world.scheduler.snapshot()
        assert snapshot.total == {node: amounts({"CPU": 2})}
        assert {name: units for name, units in snapshot.available[node].items() if units} == {}
        assert [request.id for request in snapshot.waiting] == [second]
        assert snapshot.granted == world.granted
        world.release(first)
        assert list(snapshot.granted) == [first], "a snapshot must not change afterwards"
