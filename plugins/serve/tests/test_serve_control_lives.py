"""A restarted controller: what it knows of applications, proxies, and the scaling of deployments."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from kernel_serve.autoscaling import Autoscaler, AutoscalingContext, RouterReports
from kernel_serve.control.checkpoint import Specs, record, restore
from kernel_serve.control.proxy_states import ProxyWish
from kernel_serve.control.scaling import SAVE_SECONDS, Scaling
from kernel_serve.control.state import ServeState
from kernel_serve.settings import AutoscalingConfig, GRPCOptions, HTTPOptions
from kernel_serve.testing.world import ControlWorld, application, settings
from kernel_serve.values import DeploymentSpec, RouterReport


def test_another_life_of_the_controller_knows_all_that_was_asked_for() -> None:
    world = ControlWorld({"a": 4})
    world.deploy(replace(application("old", None), is_backend=True), application("new", "/new"))
    services = GRPCOptions(grpc_servicer_functions=("a:b",))
    world.state.proxies.configure(ProxyWish("EveryNode", HTTPOptions(port=0), services), world.now)
    world.run(5)
    specs = Specs()
    data = record(world.state, specs, 0.0)
    after = ControlWorld({"a": 4}).state
    assert restore(after, data, lambda digest: specs.know(digest, specs.bytes[digest]), str, world.now, 0.0) == []
    assert {name: (each.goal, each.good) for name, each in after.applications.items()} == {
        name: (each.goal, each.good) for name, each in world.state.applications.items()
    }
    (proxy,) = after.proxies.proxies.values()
    assert (proxy.address, proxy.grpc_address) == ("127.0.0.1:0", "127.0.0.1:9000")


BEGIN = 1000.0
"""The first time on the clock of a world."""


class TestScalingInAnotherLife:
    """A controller that is killed under load, of which only what it wrote down is left."""

    KEY = "app#main"

    @staticmethod
    def state(first: int) -> ServeState:
        numbers = itertools.count(first)
        return ServeState(lambda key: f"{key}#{next(numbers)}", Scaling(Autoscaler, RouterReports(BEGIN)))

    def world(self, **changes: Any) -> ControlWorld:
        world = ControlWorld({"a": 50}, self.state(0))
        values = {"min_replicas": 1, "max_replicas": 8, "look_back_period_s": 10.0, "upscale_delay_s": 0.0}
        config = AutoscalingConfig(**{**values, "downscale_delay_s": 0.0, **changes})
        world.deploy(application(main=settings(num_replicas=None, autoscaling=config)))
        return world

    def seconds(self, world: ControlWorld, count: int, queued: int, router: str = "busy") -> list[int]:
        """Go on with so many requests at a router; return the targets."""
        targets = []
        for _ in range(count):
            world.state.report(RouterReport(router, "a", {self.KEY: queued}), world.now)
            world.run(1)
            targets.append(world.state.deployments[self.KEY].target)
            if world.state.changed:
                self.writes += 1
                self.specs = Specs()
                self.written = record(world.state, self.specs, 0.0)
                world.state.changed = False
        return targets

    writes = 0

    def another_life(self, world: ControlWorld) -> ControlWorld:
        """Return what begins with what was written last, on a clock that begins anew."""
        state, specs = self.state(1000), self.specs

        def read(digest: str) -> DeploymentSpec:
            return specs.know(digest, specs.bytes[digest])

        restore(state, self.written, read, state._new_id, BEGIN, world.now - BEGIN)
        return ControlWorld({"a": 50}, state)

    def test_the_target_stays_until_the_load_is_known_again(self) -> None:
        world = self.world()
        assert self.seconds(world, 30, 16)[-1] == 8
        after = self.another_life(world)
        assert set(self.seconds(after, 3, 0, "idle")) == {8}
        assert set(self.seconds(after, 60, 16)) == {8}
        assert self.seconds(after, 60, 4)[-1] == 2

    def test_without_any_report_it_goes_down_in_time(self) -> None:
        world = self.world()
        self.seconds(world, 30, 16)
        after = self.another_life(world)
        after.run(14)
        assert after.state.deployments[self.KEY].target == 8
        after.run(2)
        assert after.state.deployments[self.KEY].target == 1

    def test_a_steady_load_writes_nothing(self) -> None:
        world = self.world()
        self.seconds(world, 30, 16)
        self.writes = 0
        self.seconds(world, 300, 16)
        assert self.writes == 0

    def test_what_a_policy_remembers_is_written_now_and_then(self) -> None:
        def counting(context: AutoscalingContext) -> tuple[int, dict[str, int]]:
            number = context.state.get("asked", 0) + 1
            return 1 + number // 100, {"asked": number}

        world = self.world(policy=counting)
        self.seconds(world, 150, 1)
        assert self.writes <= 150 / SAVE_SECONDS + 5
        after = self.another_life(world)
        assert after.state.deployments[self.KEY].target == 2
        assert self.seconds(after, 70, 1)[-1] == 3, "it goes on counting where it was"
