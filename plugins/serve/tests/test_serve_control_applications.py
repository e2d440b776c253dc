"""Applications: deployed, rolled back and deleted as a whole; their endpoints; proxies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_serve.control import views
from kernel_serve.control.instructions import DrainProxy, PublishTopic, StartProxy
from kernel_serve.control.proxy_states import DRAIN_SECONDS, IDLE_SECONDS, ProxyWish
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.testing.world import Behaviour, ControlWorld, application, settings
from kernel_serve.values import ENDPOINTS, ApplicationSpec, DeploymentSpec, Endpoint, Target


def status(world: ControlWorld, name: str = "app") -> str:
    return views.status_of(world.state, name, world.now)[0]


def published(world: ControlWorld) -> dict[str, Endpoint]:
    return {each.name: each for each in world.state._published or ()}


def two(version: str = "1", **changes: str) -> ApplicationSpec:
    parts = {"front": version, "back": version, **changes}
    specs = tuple(DeploymentSpec("app", name, b"", settings(num_replicas=2), of) for name, of in parts.items())
    return ApplicationSpec("app", "front", specs, "/app")


class TestApplications:
    def test_it_runs_when_all_of_it_runs(self) -> None:
        world = ControlWorld({"a": 10})
        world.behaviours["slow"] = Behaviour(start_seconds=5)
        world.deploy(two(back="slow"))
        world.run(2)
        assert status(world) == "DEPLOYING"
        world.run(4)
        assert status(world) == "RUNNING"
        assert views.status(world.state, world.now)["applications"]["app"]["replica_states"] == {"RUNNING": 4}

    def test_one_bad_deployment_takes_all_back(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(two("1"))
        world.run(2)
        world.behaviours["bad"] = Behaviour(constructor_error="ValueError: no")
        world.deploy(two("2", back="bad"))
        world.run(3)
        assert status(world) in ("DEPLOYING", "DEPLOY_FAILED")
        world.run(30)
        assert status(world) == "DEPLOY_FAILED"
        assert [world.ready(f"app#{name}", "1") for name in ("front", "back")] == [2, 2]
        assert len(world.placed) == 4
        shown = views.status(world.state, world.now)["applications"]["app"]["deployments"]
        assert (shown["front"]["status"], shown["back"]["status"]) == ("HEALTHY", "DEPLOY_FAILED")

    def test_deployments_that_are_no_part_any_more_go_when_the_rest_runs(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(two("1"))
        world.run(2)
        world.behaviours["2"] = Behaviour(start_seconds=5)
        world.deploy(ApplicationSpec("app", "front", two("2").deployments[:1], "/app"))
        world.run(4)
        assert world.ready("app#back") == 2
        world.run(10)
        assert world.ready("app#back") == 0
        assert set(world.state.deployments) == {"app#front"}

    def test_deleting_waits_for_those_that_are_still_called(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(two())
        world.run(2)
        world.behaviours["1"].drain_seconds = 3
        world.delete("app")
        assert published(world) == {}
        assert status(world) == "DELETING"
        world.run(2)
        assert (world.ready("app#front"), world.ready("app#back")) == (0, 2)
        world.run(5)
        assert (world.placed, world.state.applications, world.state.deployments) == ({}, {}, {})
        assert status(world) == "NOT_STARTED"

    def test_one_that_is_being_deleted_can_be_deployed_again(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(two())
        world.run(2)
        world.delete("app")
        world.run(0.1)
        world.deploy(two())
        world.run(5)
        assert status(world) == "RUNNING"
        assert [world.ready(f"app#{name}") for name in ("front", "back")] == [2, 2]

    def test_the_same_again_changes_nothing(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(two())
        world.run(2)
        before = len(world.done)
        world.deploy(two())
        assert status(world) == "RUNNING"
        assert world.done[before:] == []

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (application("a#b"), "the name of an application is a non-empty text without '#', not 'a#b'"),
            (ApplicationSpec("app", "main", two().deployments), "the ingress 'main' of application 'app' is not among"),
            (application(prefix="app"), "the route prefix of application 'app' must begin with '/', not 'app'"),
            (application(prefix="/{x}"), "is compared as it is"),
            (application(prefix="/-/x"), "what is below /- the proxies answer themselves"),
            (ApplicationSpec("app", "front", two().deployments[:1] * 2), "has two deployments of the name 'front'"),
        ],
    )
    def test_what_can_t_be_is_refused_and_changes_nothing(self, spec: ApplicationSpec, message: str) -> None:
        world = ControlWorld({"a": 100})
        with pytest.raises(DeploymentError, match=message.replace("{", r"\{")):
            world.deploy(application("fine", "/fine"), spec)
        assert world.state.applications == {}

    def test_unknown_names_are_told_and_the_others_deleted(self) -> None:
        world = ControlWorld({"a": 100})
        world.deploy(application("shop"), application("bar", "/bar"))
        assert world.delete("ship", "bar") == ["there is no application 'ship'; did you mean 'shop'?"]
        assert [name for name, each in world.state.applications.items() if not each.deleting] == ["shop"]


class TestEndpoints:
    def test_an_application_is_one(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("shop", "/shop/"))
        assert published(world) == {"shop": Endpoint("shop", "/shop", (Target("shop#main"),))}

    def test_one_without_a_route_is_found_by_its_name_and_a_backend_is_not(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("inner", None), replace(application("old", None), is_backend=True))
        assert published(world) == {"inner": Endpoint("inner", "", (Target("inner#main"),))}
        assert views.status(world.state, world.now)["endpoints"] == []
        world.deploy(application("inner", "/inner"))
        world.run(2)
        assert published(world) == {"inner": Endpoint("inner", "/inner", (Target("inner#main"),))}
        world.delete("inner")
        assert published(world) == {}

    def test_another_ingress_takes_requests_once_it_runs(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("shop", "/", one=settings()))
        world.run(2)
        world.behaviours["2"] = Behaviour(start_seconds=5)
        world.deploy(application("shop", "/", "2", two=settings()))
        world.run(4)
        assert published(world)["shop"].targets == (Target("shop#one"),)
        world.run(4)
        assert published(world)["shop"].targets == (Target("shop#two"),)

    def test_two_can_t_have_one_prefix(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("shop", "/x"))
        with pytest.raises(
            DeploymentError,
            match="'other' can't have the route prefix '/x': the application 'shop' has it. Give it another, or delete",
        ):
            world.deploy(application("other", "/x/"))
        with pytest.raises(DeploymentError, match="'b' can't have the route prefix '/y': the application 'a' has it"):
            world.deploy(application("a", "/y"), application("b", "/y"))
        world.deploy(application("shop", "/z"))
        with pytest.raises(DeploymentError, match="'hand' can't have the route prefix '/z'"):
            world.state.set_endpoint(Endpoint("hand", "/z", (Target("shop#main"),)))
        world.deploy(application("other", "/x"))

    def test_those_set_by_hand_split_requests(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("one", None), application("two", None))
        split = Endpoint("split", "/api/", (Target("one#main", 9), Target("two#main", 1)), sticky="header:user")
        world.state.set_endpoint(split)
        world.settle()
        told = published(world)["split"]
        assert (told.prefix, told.targets) == ("/api", split.targets)
        world.delete("two")
        assert published(world)["split"].targets == (Target("one#main", 9),)
        world.state.delete_endpoint("split")
        world.settle()
        assert list(published(world)) == ["one"]

    def test_one_may_take_the_place_of_an_application_s_own(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("shop", "/"), application("canary", None))
        world.state.set_endpoint(Endpoint("shop", "/", (Target("shop#main", 95), Target("canary#main", 5))))
        world.settle()
        assert len(published(world)["shop"].targets) == 2
        world.state.delete_endpoint("shop")
        with pytest.raises(NotServingError, match="endpoint 'shop' is that of an application, and goes with it"):
            world.state.delete_endpoint("shop")

    def test_it_moves_with_its_application_once_that_runs(self) -> None:
        world = ControlWorld({"a": 20})
        world.deploy(application("shop", "/old"), application("taken", "/taken"), application("canary", None))
        split = Endpoint("shop", "/old", (Target("shop#main", 9), Target("canary#main", 1)), sticky="client")
        world.state.set_endpoint(split)
        world.run(2)
        with pytest.raises(DeploymentError, match="'shop' can't have the route prefix '/taken': the application"):
            world.deploy(application("shop", "/taken"))
        world.behaviours["2"] = Behaviour(start_seconds=5)
        world.deploy(application("shop", "/new/", "2"))
        world.run(2)
        assert published(world)["shop"] == split
        with pytest.raises(DeploymentError, match="'other' can't have the route prefix '/new': the application 'shop'"):
            world.deploy(application("other", "/new"))
        world.run(5)
        assert published(world)["shop"] == replace(split, prefix="/new")
        world.deploy(application("shop", None, "2"))
        world.run(2)
        assert published(world)["shop"] == replace(split, prefix="")
        world.state.set_endpoint(replace(split, prefix="/elsewhere"))
        world.deploy(application("shop", "/new", "2"))
        world.run(2)
        assert published(world)["shop"] == replace(split, prefix="/elsewhere")

    def test_methods_can_tell_two_apart(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("one", None))
        for name, method in (("read", "GET"), ("write", "POST")):
            world.state.set_endpoint(Endpoint(name, "/x", (Target("one#main"),), frozenset({method})))
        with pytest.raises(DeploymentError, match="the endpoint 'read' has it"):
            world.state.set_endpoint(Endpoint("again", "/x", (Target("one#main"),), frozenset({"GET"})))

    @pytest.mark.parametrize(
        ("endpoint", "message"),
        [
            (Endpoint("e", "/", ()), "endpoint 'e' needs a deployment"),
            (Endpoint("e", "/", (Target("one#mian"),)), "did you mean 'one#main'"),
            (Endpoint("e", "/", (Target("one#main", -1),)), "is -1, not 0 or more"),
            (Endpoint("e", "/", (Target("one#main", 0),)), "are all 0"),
            (Endpoint("e", "/", (Target("one#main"),), shadows=(Target("one#main", 2),)), "a share of the requests"),
            (Endpoint("e", "/", (Target("one#main"),), sticky="ip"), "sticky of endpoint 'e' is 'header:NAME'"),
        ],
    )
    def test_what_can_t_be_is_refused(self, endpoint: Endpoint, message: str) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("one", None))
        with pytest.raises((DeploymentError, NotServingError), match=message):
            world.state.set_endpoint(endpoint)

    def test_proxies_are_told_of_changes_alone(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(application("one", "/"))
        before = sum(each == PublishTopic(ENDPOINTS) for _, each in world.done)
        world.run(60)
        assert sum(each == PublishTopic(ENDPOINTS) for _, each in world.done) == before


class TestProxies:
    def wished(self, nodes: dict[str, int], location: str = "EveryNode", **http: object) -> ControlWorld:
        world = ControlWorld(nodes)
        wish = ProxyWish(location, HTTPOptions(**http), GRPCOptions())  # type: ignore[arg-type]
        world.state.proxies.configure(wish, world.now)
        world.run(1)
        return world

    def test_each_node_has_so_many(self) -> None:
        world = self.wished({"a": 1, "b": 1}, proxies_per_node=2)
        assert sorted(world.proxies.values()) == ["a", "a", "b", "b"]
        assert world.state.proxies.settled
        world.room["c"] = 1
        world.see()
        world.run(1)
        assert sorted(world.proxies.values())[-2:] == ["c", "c"]

    def test_only_the_head_has_one(self) -> None:
        assert list(self.wished({"a": 1, "b": 1}, "HeadOnly").proxies.values()) == ["a"]
        assert not self.wished({"a": 1}, "Disabled").proxies

    def test_a_node_that_goes_has_none(self) -> None:
        world = self.wished({"a": 1, "b": 1})
        world.drain("b")
        world.run(1)
        assert list(world.proxies.values()) == ["a"]

    def test_other_options_replace_them(self) -> None:
        world = self.wished({"a": 1})
        world.state.proxies.configure(ProxyWish("HeadOnly", HTTPOptions(port=1), GRPCOptions()), world.now)
        assert not world.state.proxies.settled
        world.run(1)
        assert [each.address for each in world.state.proxies.proxies.values()] == ["127.0.0.1:1"]

    def test_one_that_can_t_start_says_why_and_is_tried_again(self) -> None:
        world = ControlWorld({"a": 1})
        world.proxy_error = "the port is taken"
        world.state.proxies.configure(ProxyWish("HeadOnly", HTTPOptions(), GRPCOptions()), world.now)
        world.run(20)
        assert world.state.proxies.trouble() == "the port is taken"
        assert 4 <= sum(isinstance(each, StartProxy) for _, each in world.done) <= 8
        world.proxy_error = ""
        world.run(30)
        assert world.state.proxies.settled
        assert world.state.proxies.trouble() == ""

    def test_other_options_begin_before_those_of_before_end(self) -> None:
        world = self.wished({"a": 1})
        before = next(iter(world.state.proxies.proxies))
        world.state.proxies.configure(ProxyWish("HeadOnly", HTTPOptions(root_path="/x"), GRPCOptions()), world.now)
        world.run(1)
        said = [line.partition("proxies: ")[2] for line in world.state.proxies.history]
        assert said.index("a-0-2 listens at 127.0.0.1:8000") < said.index(f"{before} is to end")
        assert DrainProxy(before, DRAIN_SECONDS, IDLE_SECONDS) in [each for _, each in world.done]

    def test_they_are_settled_when_those_of_before_take_no_more_connections(self) -> None:
        world = self.wished({"a": 1})
        proxies, before = world.state.proxies, next(iter(world.state.proxies.proxies))
        proxies.configure(ProxyWish("HeadOnly", HTTPOptions(root_path="/x"), GRPCOptions()), world.now)
        while not proxies.proxies[before].aside:
            assert not proxies.settled
            world.run(0.01)
        assert proxies.settled and before in proxies.proxies
        proxies.configure(ProxyWish("Disabled", HTTPOptions(), GRPCOptions()), world.now)
        assert not proxies.settled
        world.run(1)
        assert proxies.settled

    def test_options_that_can_t_be_leave_those_of_before_alone(self) -> None:
        world = self.wished({"a": 1})
        wish, before = world.state.proxies.wish, dict(world.proxies)
        world.proxy_error = "no such certificate"
        world.state.proxies.configure(ProxyWish("HeadOnly", HTTPOptions(root_path="/x"), GRPCOptions()), world.now)
        world.run(1)
        assert world.state.proxies.trouble() == "no such certificate"
        world.state.proxies.configure(wish, world.now)
        world.run(1)
        assert world.proxies == before and world.state.proxies.settled

    def test_at_another_address_too_the_next_one_begins_first_and_knows_where_the_one_before_is(self) -> None:
        world = self.wished({"a": 1})
        before = next(iter(world.state.proxies.proxies))
        world.state.proxies.configure(ProxyWish("HeadOnly", HTTPOptions(host="0.0.0.0"), GRPCOptions()), world.now)
        world.run(1)
        said = [line.partition("proxies: ")[2] for line in world.state.proxies.history]
        assert said.index("a-0-2 listens at 0.0.0.0:8000") < said.index(f"{before} is to end")
        starts = [each.beside for _, each in world.done if isinstance(each, StartProxy)]
        assert starts == [(), ("127.0.0.1:8000",)]
        assert DrainProxy(before, DRAIN_SECONDS, IDLE_SECONDS, moved=True) in [each for _, each in world.done]

    def test_any_free_port_stays_the_same(self) -> None:
        world = self.wished({"a": 1}, port=0)
        (first,) = world.state.proxies.proxies.values()
        first.address, first.grpc_address = "127.0.0.1:4321", "127.0.0.1:5432"
        services = GRPCOptions(port=0, grpc_servicer_functions=("a:b",))
        http = HTTPOptions(port=0, root_path="/x")
        for grpc, address in ((services, "127.0.0.1:5432"), (GRPCOptions(), ""), (services, "127.0.0.1:5432")):
            world.state.proxies.configure(ProxyWish("EveryNode", http, grpc), world.now)
            world.run(1)
            (proxy,) = world.state.proxies.view().values()
            assert (proxy["address"], proxy["grpc_address"]) == ("127.0.0.1:4321", address)

    def test_they_share_the_port_for_grpc_with_each_other_and_with_nobody_else(self) -> None:
        def shares() -> list[bool]:
            return [each.shares_grpc for _, each in world.done if isinstance(each, StartProxy)]

        world = self.wished({"a": 1, "b": 1})
        services = GRPCOptions(grpc_servicer_functions=("a:b",))
        expected = ((9000, 1, [False] * 2), (9000, 1, [True] * 2), (9001, 1, [False] * 2), (9001, 2, [True] * 4))
        assert shares() == [False] * 2
        for port, proxies, shared in expected:
            before = len(shares())
            http = HTTPOptions(proxies_per_node=proxies, root_path=f"/{before}")
            world.state.proxies.configure(ProxyWish("EveryNode", http, replace(services, port=port)), world.now)
            world.run(60)
            assert shares()[before:] == shared

    def test_one_that_dies_after_a_long_life_is_replaced_at_once_however_often(self) -> None:
        world = self.wished({"a": 1})
        for _ in range(6):
            world.run(60)
            (id,) = world.proxies
            del world.proxies[id]
            world.state.proxies.failed(id, "signal 9", True, world.now)
            world.run(0.2)
            assert world.state.proxies.settled

    def test_one_that_follows_knows_the_ports_of_the_one_that_died(self) -> None:
        world = self.wished({"a": 1}, port=0)
        ((id, first),) = world.state.proxies.proxies.items()
        first.address, first.grpc_address = "127.0.0.1:4321", "127.0.0.1:5432"
        world.state.proxies.configure(ProxyWish("EveryNode", HTTPOptions(port=0), GRPCOptions(port=0)), world.now)
        del world.proxies[id]
        world.state.proxies.failed(id, "signal 9", True, world.now)
        world.run(1)
        starts = [(each.http.port, each.ports_before) for _, each in world.done if isinstance(each, StartProxy)]
        assert starts == [(0, ()), (4321, (4321, 5432))]

    def test_one_that_dies_is_replaced(self) -> None:
        world = self.wished({"a": 1})
        id = next(iter(world.proxies))
        del world.proxies[id]
        world.state.proxies.failed(id, "signal 9", True, world.now)
        world.run(1)
        assert world.state.proxies.settled
