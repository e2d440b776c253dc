"""One deployment's decisions: starting, stopping, updating, checking, trying again."""

from __future__ import annotations

import re

from kernel_serve.control import views
from kernel_serve.control.instructions import (
    CheckReplica,
    DrainReplica,
    Instruction,
    KillReplica,
    Reconfigure,
    StartReplica,
)
from kernel_serve.control.replica_sets import replica_set_of
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.testing.world import Behaviour, ControlWorld, application, settings

KEY = "app#main"


def deployed(world: ControlWorld, version: str = "1", **given: object) -> None:
    world.deploy(application(version=version, main=settings(**given)))


def running_world(replicas: int, room: int = 100, nodes: int = 1) -> ControlWorld:
    world = ControlWorld({f"n{number}": room for number in range(nodes)})
    deployed(world, num_replicas=replicas)
    world.run(5)
    assert world.ready(KEY) == replicas
    return world


def status(world: ControlWorld) -> tuple[str, str]:
    view = views.status(world.state, world.now)["applications"]["app"]
    return view["status"], view["deployments"]["main"]["status"]


class Floor:
    """Watches how few replicas took requests."""

    def __init__(self, world: ControlWorld) -> None:
        self.lowest = world.ready(KEY)
        world.watchers.append(self)

    def __call__(self, world: ControlWorld, instruction: Instruction) -> None:
        going = isinstance(instruction, DrainReplica) and instruction.id in world.alive
        self.lowest = min(self.lowest, world.ready(KEY) - going)


class TestStarting:
    def test_all_replicas_of_a_first_deployment_start_at_once(self) -> None:
        world = ControlWorld({"a": 10})
        deployed(world, num_replicas=4)
        assert [type(each) for at, each in world.done].count(StartReplica) == 4
        assert status(world) == ("DEPLOYING", "UPDATING")
        world.run(1)
        assert world.ready(KEY) == 4
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_one_that_waits_for_room_says_so(self) -> None:
        world = ControlWorld({"a": 1})
        deployed(world, num_replicas=2)
        world.run(3)
        message = views.status_of(world.state, "app", world.now)
        assert message[0] == "DEPLOYING"
        assert "1 of 2 replicas take requests" in message[1] and "waits: there is no room" in message[1]

    def test_no_replicas_are_wanted(self) -> None:
        world = ControlWorld({"a": 1})
        deployed(world, num_replicas=0)
        assert status(world) == ("RUNNING", "HEALTHY")
        assert not world.placed
        why = "it has num_replicas=0, so nothing answers its requests"
        assert views.status_of(world.state, "app", world.now) == ("RUNNING", f"main: {why}")
        state = world.state.deployments[KEY]
        assert replica_set_of(state, {}).paused
        assert replica_set_of(state, {}).message == f"{KEY} has num_replicas=0: deploy it with more"
        deployed(world, num_replicas=1)
        assert not replica_set_of(state, {}).paused

    def test_who_starts_says_for_how_long(self) -> None:
        world = ControlWorld({"a": 10})
        world.behaviours["1"] = Behaviour(start_seconds=60)
        deployed(world, num_replicas=1)
        world.run(12)
        said = views.status_of(world.state, "app", world.now)[1]
        assert said == "main: 0 of 1 replicas take requests; 1 has been starting for 12 s: its constructor runs"
        deployed(world, num_replicas=3)
        world.run(8)
        said = views.status_of(world.state, "app", world.now)[1]
        assert said == "main: 0 of 3 replicas take requests; 3 have been starting for 20 s: their constructors run"


class TestScaling:
    def test_starting_ones_stop_first(self) -> None:
        world = running_world(2)
        world.behaviours["1"].start_seconds = 60
        deployed(world, num_replicas=6)
        world.run(1)
        deployed(world, num_replicas=3)
        stopped = [each for _, each in world.done if isinstance(each, (DrainReplica, KillReplica))]
        assert [type(each) for each in stopped] == [KillReplica] * 3
        assert world.ready(KEY) == 2

    def test_nodes_with_few_replicas_become_empty_and_the_newest_go(self) -> None:
        world = ControlWorld({"a": 1, "b": 3})
        deployed(world, num_replicas=4)
        world.run(2)
        deployed(world, num_replicas=2)
        world.run(2)
        assert sorted(world.placed.values()) == ["b", "b"]

    def test_the_status_says_which_way(self) -> None:
        world = running_world(2)
        deployed(world, num_replicas=3)
        assert status(world) == ("DEPLOYING", "UPSCALING")
        world.run(1)
        assert status(world) == ("RUNNING", "HEALTHY")
        deployed(world, num_replicas=1)
        world.run(1)
        assert status(world) == ("RUNNING", "HEALTHY")


class TestUpdates:
    def test_as_many_as_wanted_take_requests_all_the_time(self) -> None:
        world = running_world(5)
        floor = Floor(world)
        deployed(world, "2", num_replicas=5)
        assert status(world) == ("DEPLOYING", "UPDATING")
        world.run(30)
        assert (world.ready(KEY, "2"), world.ready(KEY)) == (5, 5)
        assert floor.lowest == 5
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_a_step_at_a_time(self) -> None:
        world = running_world(10)
        most = 0

        def watch(world: ControlWorld, instruction: Instruction) -> None:
            nonlocal most
            most = max(most, len(world.alive))

        world.watchers.append(watch)
        deployed(world, "2", num_replicas=10, rolling_update_percentage=0.3)
        assert len(world.placed) == 13
        world.run(30)
        assert world.ready(KEY, "2") == 10
        assert most <= 13

    def test_without_room_one_old_one_goes_first(self) -> None:
        world = running_world(3, room=3)
        floor = Floor(world)
        deployed(world, "2", num_replicas=3)
        world.run(4)
        assert world.ready(KEY, "1") == 3
        world.run(60)
        assert world.ready(KEY, "2") == 3
        assert floor.lowest == 2

    def test_what_no_node_could_hold_takes_nobody_s_place(self) -> None:
        world = running_world(1, room=1)
        deployed(world, "2", num_replicas=1)
        world.run(0.1)
        replica = next(iter(world.waiting))
        world.state.deployments[KEY].waits(replica, "no node has 8 GPUs", False, world.now)
        world.run(60)
        assert world.ready(KEY, "1") == 1

    def test_a_newer_update_replaces_one_under_way(self) -> None:
        world = running_world(4)
        floor = Floor(world)
        world.behaviours["2"] = Behaviour(start_seconds=100)
        deployed(world, "2", num_replicas=4)
        world.run(1)
        deployed(world, "3", num_replicas=4)
        world.run(30)
        assert world.ready(KEY, "3") == len(world.placed) == 4
        assert floor.lowest == 4

    def test_other_numbers_only_start_and_stop(self) -> None:
        world = running_world(2)
        before = set(world.alive)
        deployed(world, num_replicas=4)
        world.run(2)
        assert before < set(world.alive)
        told = [each for _, each in world.done if isinstance(each, Reconfigure)]
        assert {each.id for each in told} == before and {each.settings.user_config for each in told} == {None}


class TestReconfiguring:
    def test_settings_are_given_to_those_that_run_a_step_at_a_time(self) -> None:
        world = running_world(5)
        before = set(world.alive)
        deployed(world, num_replicas=5, user_config={"a": 1}, rolling_update_percentage=0.4)
        assert sum(isinstance(each, Reconfigure) for _, each in world.done) == 2
        world.run(2)
        assert set(world.alive) == before
        assert {world.settings[id].user_config["a"] for id in before} == {1}
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_settings_that_are_refused_are_taken_back(self) -> None:
        world = running_world(3)
        floor = Floor(world)
        deployed(world, num_replicas=3, user_config="bad")
        world.run(60)
        assert status(world)[0] == "DEPLOY_FAILED"
        assert world.ready(KEY) == 3
        assert {world.settings[id].user_config for id in world.alive} == {None}
        assert floor.lowest >= 2

    def test_arrays_can_be_settings(self) -> None:
        import numpy as np

        world = running_world(1)
        deployed(world, num_replicas=1, user_config={"weights": np.zeros(3)})
        world.run(2)
        assert world.settings[next(iter(world.alive))].user_config["weights"].shape == (3,)
        assert status(world) == ("RUNNING", "HEALTHY")


class TestFailures:
    def test_one_failure_is_one(self) -> None:
        world = ControlWorld({"a": 1})
        world.behaviours["1"] = Behaviour(start_seconds=1, constructor_error="ValueError: no weights")
        deployed(world, num_replicas=1, max_constructor_retry_count=1)
        world.run(1.5)
        said = views.status_of(world.state, "app", world.now)
        assert said[0] == "DEPLOY_FAILED"
        assert said[1].startswith("main: it failed once, and is tried again now and then. At last:\nValueError")

    def test_a_bad_version_is_rolled_back(self) -> None:
        world = running_world(4)
        floor = Floor(world)
        world.behaviours["2"] = Behaviour(constructor_error="Traceback ...\nValueError: no weights")
        deployed(world, "2", num_replicas=4)
        world.run(30)
        assert (world.ready(KEY, "1"), len(world.placed), floor.lowest) == (4, 4, 4)
        name, message = views.status_of(world.state, "app", world.now)
        assert name == "DEPLOY_FAILED"
        assert "could not be made to run (it failed 3 times in a row)" in message
        assert "ValueError: no weights" in message
        deployed(world, "3", num_replicas=4)
        world.run(30)
        assert status(world) == ("RUNNING", "HEALTHY")
        assert world.ready(KEY, "3") == 4

    def test_one_that_is_not_healthy_long_enough_is_rolled_back(self) -> None:
        world = running_world(1)
        world.behaviours["2"] = Behaviour(start_seconds=1)
        deployed(world, "2", num_replicas=1)
        for _ in range(40):
            world.run(0.5)
            for id in [id for id in world.placed if id not in world.alive]:
                world.kill(id)
        assert status(world) == ("DEPLOY_FAILED", "DEPLOY_FAILED")
        assert world.ready(KEY, "1") == 1

    def test_a_first_deployment_that_fails_is_tried_again_ever_more_rarely(self) -> None:
        world = ControlWorld({"a": 100})
        world.behaviours["1"] = Behaviour(start_seconds=0.1, constructor_error="ImportError: no torch")
        deployed(world, num_replicas=3)
        world.run(60)
        name, message = views.status_of(world.state, "app", world.now)
        assert name == "DEPLOY_FAILED" and "ImportError: no torch" in message
        starts = [at for at, each in world.done if isinstance(each, StartReplica)]
        assert len([at for at in starts if at == starts[0]]) == 3
        assert len(starts) < 12
        world.behaviours["1"].constructor_error = ""
        world.run(60)
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_one_that_dies_is_replaced_at_once(self) -> None:
        world = running_world(2)
        world.run(60)
        world.kill(next(iter(world.alive)))
        world.run(0.0)
        assert status(world) == ("UNHEALTHY", "UNHEALTHY")
        world.run(0.3)
        assert world.ready(KEY) == 2
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_those_that_die_again_and_again_start_ever_more_rarely(self) -> None:
        world = running_world(1)
        world.run(60)
        before = len(world.done)
        for _ in range(120):
            world.run(0.5)
            for id in list(world.alive):
                world.kill(id)
        starts = [each for _, each in world.done[before:] if isinstance(each, StartReplica)]
        assert 4 <= len(starts) <= 10
        assert status(world) == ("UNHEALTHY", "UNHEALTHY")
        message = views.status_of(world.state, "app", world.now)[1]
        assert re.search(r"replicas failed \d times in a row, so the next one starts in \d+ s; the last f", message)
        world.run(30)
        message = views.status_of(world.state, "app", world.now)[1]
        assert re.fullmatch(r"main: replicas failed \d times in a row", message) or not message
        world.run(30)
        assert status(world) == ("RUNNING", "HEALTHY")
        assert views.status_of(world.state, "app", world.now)[1] == ""


class TestHealth:
    def test_checks_come_in_their_time(self) -> None:
        world = ControlWorld({"a": 1})
        deployed(world, health_check_period_s=3.0)
        world.run(31)
        assert sum(isinstance(each, CheckReplica) for _, each in world.done) == 10

    def test_three_failures_in_a_row_replace_a_replica(self) -> None:
        world = running_world(1)
        first = next(iter(world.alive))
        world.behaviours["1"].check_error = "RuntimeError: stuck"
        world.run(6.5)
        assert first in world.alive
        world.run(2)
        assert first not in world.alive
        assert f"{first} is unhealthy, and is replaced" in "\n".join(views.history(world.state, KEY))
        world.behaviours["1"].check_error = ""
        world.run(30)
        assert status(world) == ("RUNNING", "HEALTHY")

    def test_one_that_a_router_has_lost_is_checked_at_once_and_briefly(self) -> None:
        world = running_world(1)
        id = next(iter(world.alive))
        world.state.deployments[KEY].suspect(id, world.now)
        world.settle()
        assert world.done[-1][1] == CheckReplica(id, 5.0)

    def test_one_that_does_not_end_is_killed(self) -> None:
        world = running_world(2)
        world.behaviours["1"].drain_seconds = 1e6
        deployed(world, num_replicas=1, graceful_shutdown_timeout_s=1e9)
        world.run(1)
        state = world.state.deployments[KEY]
        stopping = next(each for each in state.replicas.values() if each.phase == "STOPPING")
        stopping.stop_by = world.now + 5
        state.touch()
        world.run(6)
        assert any(each == KillReplica(stopping.id) for _, each in world.done)
        assert len(world.placed) == 1


class TestNodes:
    def test_replicas_leave_a_node_that_is_about_to_go_without_a_gap(self) -> None:
        world = running_world(6, nodes=3, room=10)
        floor = Floor(world)
        assert sum(node == "n2" for node in world.placed.values()) == 2
        world.drain("n2")
        world.run(10)
        assert "n2" not in world.placed.values()
        assert (world.ready(KEY), floor.lowest) == (6, 6)

    def test_without_room_elsewhere_they_stay_as_long_as_the_node(self) -> None:
        world = running_world(2, nodes=2, room=1)
        world.drain("n1")
        world.run(60)
        assert world.ready(KEY) == 2
        world.lose("n1")
        world.run(10)
        assert world.ready(KEY) == 1

    def test_the_loss_of_a_node_is_made_good_elsewhere(self) -> None:
        world = running_world(4, nodes=2, room=4)
        world.run(30)
        world.lose("n1")
        world.run(1)
        assert world.ready(KEY) == 4


class TestAutoscaling:
    def scaled(self, **given: object) -> ControlWorld:
        world = ControlWorld({"a": 100})
        config = AutoscalingConfig(**{"min_replicas": 0, "max_replicas": 5, **given})  # type: ignore[arg-type]
        deployed(world, num_replicas=None, autoscaling=config)
        world.run(5)
        return world

    def test_it_wakes_as_soon_as_a_request_waits(self) -> None:
        world = self.scaled()
        assert status(world) == ("RUNNING", "HEALTHY")
        world.run(0.01)
        world.load(KEY, 1)
        assert [each.id for _, each in world.done if isinstance(each, StartReplica)]
        assert status(world) == ("RUNNING", "UPSCALING")

    def test_it_follows_within_its_bounds(self) -> None:
        world = self.scaled()
        for queued, expected in ((3, 3), (9, 5), (2, 2), (0, 0)):
            world.load(KEY, queued)
            world.run(5)
            assert world.ready(KEY) == expected

    def test_an_update_keeps_the_number(self) -> None:
        world = self.scaled()
        world.load(KEY, 4)
        world.run(5)
        floor = Floor(world)
        config = AutoscalingConfig(min_replicas=0, max_replicas=5)
        deployed(world, "2", num_replicas=None, autoscaling=config)
        world.run(10)
        assert (world.ready(KEY, "2"), floor.lowest) == (4, 4)

    def test_other_bounds_count_at_once(self) -> None:
        world = self.scaled()
        deployed(world, num_replicas=None, autoscaling=AutoscalingConfig(min_replicas=2, max_replicas=5))
        world.run(2)
        assert world.ready(KEY) == 2
        deployed(world, num_replicas=1)
        world.run(2)
        assert world.ready(KEY) == 1


def test_what_happened_can_be_read() -> None:
    world = running_world(1)
    deployed(world, "2", num_replicas=1)
    world.run(5)
    text = "\n".join(views.history(world.state))
    for part in ("is to start, as version 1", "is ready after 0.20 s", "is to be version 2", "is gone"):
        assert part in text
