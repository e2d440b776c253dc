"""The controller's record, and what it keeps of deployments and replicas that are gone."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_serve.autoscaling import Autoscaler, RouterReports
from kernel_serve.control import memory
from kernel_serve.control.instructions import PublishTopic, StartReplica
from kernel_serve.control.proxy_states import ProxyWish
from kernel_serve.control.replica_sets import replica_set_of, unpublished_value
from kernel_serve.control.scaling import Scaling
from kernel_serve.control.state import ServeState
from kernel_serve.control.topics import ControllerTopics
from kernel_serve.metrics.controller import ControllerMetrics
from kernel_serve.settings import AutoscalingConfig, GRPCOptions, HTTPOptions
from kernel_serve.testing.world import ControlWorld, application, settings
from kernel_serve.values import ENDPOINTS, Endpoint, RouterReport, Target

from kernel.metrics.registry import MetricRegistry


class Store(dict[str, bytes]):
    """Has the methods of `kernel.KeyValue`."""

    def __init__(self, namespace: str) -> None:
        super().__init__()

    def keys(self, prefix: str = "") -> list[str]:  # type: ignore[override]
        return [key for key in dict.keys(self) if key.startswith(prefix)]

    def put(self, key: str, value: bytes) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


def test_a_turn_that_is_late_writes_nothing_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.kernel, "KeyValue", Store)
    kept = memory.ControllerMemory()
    kept.write(b"record", {"1": b"one"})
    assert kept._store.keys() == ["spec/1/1/0", "controller"]
    kept.clear()
    kept.write(b"record", {"1": b"one"})
    assert kept._store.keys() == []


def test_a_spec_that_is_larger_than_a_value_may_be_is_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("")
    monkeypatch.setattr(memory.kernel, "KeyValue", lambda namespace: store)
    monkeypatch.setattr(memory, "PIECE_BYTES", 10)
    large, small = pickle.dumps("x" * 50), pickle.dumps("y")
    memory.ControllerMemory().write(b"record", {"large": large, "small": small})
    assert max(map(len, store.values())) == 10
    after = memory.ControllerMemory()
    assert after.read() == b"record"
    assert [after.read_spec(digest) for digest in ("large", "small")] == ["x" * 50, "y"]
    after.write(b"record", {"small": small})
    assert not store.keys("spec/large/")
    with pytest.raises(KeyError, match="the spec large is missing"):
        after.specs = memory.Specs()
        after._read.clear()
        after.read_spec("large")


def test_a_spec_that_was_written_in_part_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store("")
    monkeypatch.setattr(memory.kernel, "KeyValue", lambda namespace: store)
    monkeypatch.setattr(memory, "PIECE_BYTES", 10)
    spec = pickle.dumps("x" * 50)
    memory.ControllerMemory().write(b"record", {"1": spec})
    del store[store.keys("spec/1/")[3]]
    after = memory.ControllerMemory()
    after.read()
    assert store.keys("spec/") == []
    after.write(b"record", {"1": spec})
    again = memory.ControllerMemory()
    again.read()
    assert again.read_spec("1") == "x" * 50


class Controlled:
    """All that a controller keeps, around the state machines, in an imagined world."""

    def __init__(self) -> None:
        numbers = itertools.count()
        state = ServeState(lambda key: f"{key}#{next(numbers)}", Scaling(Autoscaler, RouterReports(1000.0)))
        self.world = ControlWorld({"a": 50}, state)
        self.memory = memory.ControllerMemory()
        self.topics = ControllerTopics("1", unpublished_value)
        self.registry = MetricRegistry()
        self.metrics = ControllerMetrics(self.registry)
        self.world.watchers.append(lambda world, instruction: self.hear(instruction))

    def hear(self, instruction: Any) -> None:
        """Do what the controller does beside carrying it out."""
        state = self.world.state
        if isinstance(instruction, StartReplica):
            self.metrics.started(instruction.spec.key)
        elif isinstance(instruction, PublishTopic) and instruction.topic == ENDPOINTS:
            self.topics.publish(ENDPOINTS, state.published_endpoints)
        elif isinstance(instruction, PublishTopic) and instruction.topic in state.deployments:
            self.topics.publish(
                instruction.topic, replica_set_of(state.deployments[instruction.topic], self.world.alive)
            )
        elif isinstance(instruction, PublishTopic):
            self.topics.withdraw(instruction.topic)
            self.metrics.forget(instruction.topic)

    def deploy_and_delete(self, name: str) -> None:
        """Have an application with requests, an endpoint of its own and one replica that dies, and none of it again."""
        world = self.world
        autoscaling = AutoscalingConfig(min_replicas=1, max_replicas=3, upscale_delay_s=0.0)
        parts = {"front": settings(), "back": settings(num_replicas=None, autoscaling=autoscaling)}
        world.deploy(application(name, f"/{name}", **parts))
        world.state.set_endpoint(Endpoint(f"{name} by hand", f"/hand/{name}", (Target(f"{name}#back"),)))
        world.run(1)
        world.state.report(RouterReport("r", "a", {f"{name}#back": 6}), world.now)
        world.run(1)
        world.kill(next(id for id in world.alive if id.startswith(f"{name}#back")))
        self.write()
        world.run(1)
        world.state.delete_endpoint(f"{name} by hand")
        world.delete(name)
        world.run(1)
        world.done.clear()
        self.write()

    def write(self) -> None:
        """Write down what there is."""
        self.memory.write(*self.memory.prepare(self.world.state))


def sizes(thing: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, int]]:
    """Yield where below `thing` there is a table, and how many entries it has."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, (str, int, float, type)) or callable(thing):
        return
    seen.add(id(thing))
    inside: Any = ()
    if isinstance(thing, dict):
        yield path, len(thing)
        inside = [("[]", each) for each in thing.values()]
    elif hasattr(thing, "__len__"):
        yield path, len(thing)
        inside = [("[]", each) for each in thing] if not isinstance(thing, bytes) else ()
    elif type(thing).__module__.startswith("kernel_serve"):
        names = getattr(thing, "__dict__", None) or getattr(type(thing), "__slots__", ())
        inside = [(f".{name}", getattr(thing, name)) for name in names]
    for name, each in inside:
        yield from sizes(each, path + name, seen)


def test_nothing_is_kept_of_a_thousand_applications_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.kernel, "KeyValue", Store)
    controlled = Controlled()
    state = controlled.world.state
    state.proxies.configure(ProxyWish("EveryNode", HTTPOptions(), GRPCOptions()), controlled.world.now)
    kept: list[Counter[str]] = []
    for number in range(1000):
        controlled.deploy_and_delete(f"app{number}")
        if number in (9, 999):
            found: Counter[str] = Counter()
            for part in (state, controlled.memory, controlled.topics, controlled.registry):
                for path, size in sizes(part, type(part).__name__):
                    found[path] += size
            kept.append(found)
    few, many = kept
    grown = {path: (few[path], size) for path, size in many.items() if size > few[path]}
    assert {path: size for path, size in grown.items() if not path.startswith("ServeState.proxies.history")} == {}
    assert many["ServeState.deployments"] == many["ServeState.applications"] == many["ControllerMemory._store"] - 1 == 0
