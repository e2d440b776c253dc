"""Rules of endpoints, backends, deployments and their settings before anything runs."""

from __future__ import annotations

import asyncio
import pickle
from random import Random
from typing import Any

import cloudpickle
import pytest
from kernel_serve.api.declared import UNSET
from kernel_serve.api.deployment import deployment
from kernel_serve.api.run import route_of, start
from kernel_serve.api.status_types import ProxyFacts, facts_of
from kernel_serve.errors import DeploymentError, DeploymentUnavailableError
from kernel_serve.names import nearest
from kernel_serve.routing.router import is_older
from kernel_serve.settings import HTTPOptions
from kernel_serve.testing.world import ControlWorld, application, settings
from kernel_serve.traffic.endpoint_table import EndpointTable, ServedEndpoint
from kernel_serve.values import ApplicationSpec, DeploymentSpec, Endpoint, Target


def backend(tag: str) -> ApplicationSpec:
    return ApplicationSpec(tag, tag, (DeploymentSpec(tag, tag, b"", settings(), "1"),), None, is_backend=True)


def endpoint(name: str, prefix: str, *targets: Target) -> Endpoint:
    return Endpoint(name, prefix, targets, stands_alone=True)


class TestRules:
    def test_an_endpoint_needs_neither_targets_nor_a_prefix(self) -> None:
        world = ControlWorld({"a": 10})
        world.state.set_endpoint(endpoint("e", "/e"))
        world.state.set_endpoint(endpoint("f", ""))
        world.state.set_endpoint(endpoint("g", ""))
        world.settle()
        assert [(each.name, each.prefix) for each in world.state.published_endpoints] == [
            ("e", "/e"),
            ("f", ""),
            ("g", ""),
        ]
        with pytest.raises(DeploymentError, match="endpoint 'h' needs a deployment that its requests go to"):
            world.state.set_endpoint(Endpoint("h", "/h", ()))

    def test_a_backend_in_use_stays_and_its_endpoint_outlives_it(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(backend("b"))
        world.state.set_endpoint(endpoint("b", "/b", Target("b#b")))
        with pytest.raises(DeploymentError, match="backend 'b' can't be deleted: endpoint 'b' sends requests to it"):
            world.delete("b")
        world.state.set_endpoint(endpoint("b", "/b"))
        world.delete("b")
        assert [each.name for each in world.state.published_endpoints] == ["b"]

    def test_a_shadow_counts_as_use(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(backend("b"), backend("c"))
        world.state.set_endpoint(
            Endpoint("e", "/e", (Target("b#b"),), shadows=(Target("c#c", 0.5),), stands_alone=True)
        )
        with pytest.raises(DeploymentError, match="backend 'c' can't be deleted"):
            world.delete("c")

    def test_a_name_is_that_of_one_kind(self) -> None:
        world = ControlWorld({"a": 10})
        world.deploy(backend("b"), application("app", "/app"))
        world.state.set_endpoint(endpoint("e", "/e"))
        for wrong, message in (
            (lambda: world.deploy(application("b", "/b")), "an application can't be named 'b': there is a backend"),
            (lambda: world.deploy(backend("app")), "a backend can't be named 'app': there is an application of that"),
            (lambda: world.deploy(application("e", "/x")), "an application can't be named 'e': there is an endpoint"),
            (lambda: world.state.set_endpoint(endpoint("app", "/x")), "an endpoint can't be named 'app'"),
        ):
            with pytest.raises(DeploymentError, match=message):
                wrong()
        world.deploy(backend("e"))  # as every example has it: the backend is named as its endpoint


class TestWays:
    def test_an_endpoint_that_nothing_answers_says_so(self) -> None:
        for targets in ((), (Target("a#d", 0.0),)):
            served = ServedEndpoint(endpoint("e", "/e", *targets), Random(1))
            assert not served.answers
            with pytest.raises(DeploymentUnavailableError, match="endpoint 'e' has nothing to answer yet"):
                served.target({})

    def test_the_only_one_with_a_weight_gets_all(self) -> None:
        served = ServedEndpoint(endpoint("e", "/e", Target("a#d", 0.0), Target("b#d", 1.0)), Random(1))
        assert {served.target({"headers": []}) for _ in range(10)} == {"b#d"}

    def test_those_without_a_prefix_are_found_by_name_alone(self) -> None:
        table = EndpointTable([endpoint("e", "", Target("a#d"))], Random(1))
        assert table.find("/") is None and table.text() == "{}"
        assert table.named("e") is not None and table.named("f") is None


def test_versions_of_news_tell_which_is_older() -> None:
    assert is_older("life:9", "life:10") and is_older(None, "life:1") and is_older("other:99", "life:1")
    assert not is_older("life:10", "life:10") and not is_older("life:11", "life:10")


class TestDeployments:
    def test_a_route_is_an_option_and_run_goes_by_it(self) -> None:
        @deployment(route_prefix="/there")
        def handler(request: Any) -> str:
            return ""

        assert handler.options(name="other").route_prefix == "/there"
        assert route_of(handler.bind(), UNSET) == "/there" and route_of(handler.bind(), None) is None
        plain = deployment(lambda request: "", name="plain")
        assert route_of(plain.bind(), UNSET) == "/" and route_of(plain.bind(), "/x") == "/x"

    def test_no_route_is_still_none_after_a_journey(self) -> None:
        assert pickle.loads(pickle.dumps(UNSET)) is UNSET and cloudpickle.loads(cloudpickle.dumps(UNSET)) is UNSET

    def test_start_refuses_what_it_does_not_know(self) -> None:
        with pytest.raises(DeploymentError, match=r"no argument 'http_host'; did you mean 'http_options'\?"):
            start(http_host="127.0.0.1")
        with pytest.raises(DeploymentError, match=r"no argument 'detached'; there are proxy_location, http_options, g"):
            start(detached=True)
        with pytest.raises(DeploymentError, match="log_level of logging_config is a level such as"):
            start(logging_config={"log_level": "LOUD"})
        with pytest.raises(DeploymentError, match="proxy_location is one of EveryNode, HeadOnly, Disabled, not"):
            start("Every")  # type: ignore[arg-type]


def test_the_port_can_be_set_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_SERVE_HTTP_PORT", "8123")
    monkeypatch.setenv("KERNEL_SERVE_HTTP_HOST", "0.0.0.0")
    assert (HTTPOptions().port, HTTPOptions().host, HTTPOptions(port=1).port) == (8123, "0.0.0.0", 1)
    monkeypatch.setenv("KERNEL_SERVE_HTTP_PORT", "http")
    with pytest.raises(DeploymentError, match="KERNEL_SERVE_HTTP_PORT is a number from 0"):
        HTTPOptions()


def test_facts_are_dictionaries_with_attributes() -> None:
    facts = facts_of({"applications": {"a": {"status": "RUNNING"}}, "proxies": [{"port": 1}]})
    assert facts.applications["a"].status == facts["applications"]["a"]["status"] == "RUNNING"
    assert facts.proxies[0].port == 1
    with pytest.raises(AttributeError, match="there is no 'nodes' here; there are applications, proxies"):
        _ = facts.nodes
    assert pickle.loads(pickle.dumps(facts)) == facts


def test_the_nearest_name_is_told() -> None:
    assert nearest("modle", ["model", "other"]) == "; did you mean 'model'?"
    assert nearest("x", ["model", "other"]) == "; there are model, other" and nearest("x", []) == "; there is none"


def test_the_state_of_an_application_in_front_travels() -> None:
    from kernel_serve.api.ingress import ingress
    from starlette.applications import Starlette

    app = Starlette()
    app.state.model = "large"

    class Front:
        pass

    ingress(app)(Front)
    assert cloudpickle.loads(cloudpickle.dumps(app)).state.model == "large"


def test_a_router_waits_for_news_of_what_it_follows() -> None:
    from kernel_serve.routing.router import Router
    from kernel_serve.values import ENDPOINTS

    async def follow() -> None:
        router = Router.__new__(Router)
        router._known, router._dispatchers, router._waiting, router._listeners = {}, {}, [], []
        router._random, router.endpoint_table = Random(1), EndpointTable((), Random(1))
        waiting = asyncio.ensure_future(router.await_news({ENDPOINTS: "life:2", "other#one": "life:3"}))
        await asyncio.sleep(0)
        router._learn({ENDPOINTS: ("life:1", ())})
        await asyncio.sleep(0)
        assert not waiting.done()
        router._learn({ENDPOINTS: ("life:4", (endpoint("e", "/e"),))})
        await asyncio.wait_for(waiting, 120)
        assert router.knows_endpoints and router.endpoint_table.named("e") is not None

    asyncio.run(follow())


def test_a_status_has_the_name_and_value_of_a_member_of_an_enumeration() -> None:
    found = facts_of({"applications": {"one": {"status": "RUNNING", "deployments": {"A": {"status": "HEALTHY"}}}}})
    one = found.applications["one"]
    assert (one.status.name, one.status.value, one.deployments.A.status.value) == ("RUNNING", "RUNNING", "HEALTHY")
    assert one.status == "RUNNING" and {one.status: 1} == {"RUNNING": 1} and repr(one.status) == "'RUNNING'"
    assert pickle.loads(pickle.dumps(found)) == found
    proxy = ProxyFacts({"status": "HEALTHY", "index": 0})
    assert (proxy.value, proxy.name) == ("HEALTHY", "HEALTHY")


def test_a_proxy_is_its_status_with_what_else_is_known_of_it() -> None:
    proxy = ProxyFacts({"status": "HEALTHY", "address": "127.0.0.1:8000", "index": 0})
    assert {proxy: 1} == {"HEALTHY": 1} and isinstance(proxy, str)
    assert (proxy.address, proxy["address"], proxy.get("index")) == ("127.0.0.1:8000", "127.0.0.1:8000", 0)
    assert dict(proxy) == {"status": "HEALTHY", "address": "127.0.0.1:8000", "index": 0}
    other = pickle.loads(pickle.dumps(proxy))
    assert (other, other.address) == (proxy, proxy.address)
    with pytest.raises(AttributeError, match="there is no 'port' here; there are status, address, index"):
        _ = proxy.port
