"""Asking all processes for their numbers, some of which do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from kernel_serve.metrics import gathering
from kernel_serve.metrics.gathering import Gatherer

from kernel.metrics.registry import MetricRegistry
from kernel_spec.errors import ActorDiedError
from kernel_spec.metrics import MetricsSnapshot


class Answer:
    """The result of `remote()`: it comes at once, raises, or never comes (`...`)."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def as_future(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(self._value, Exception):
            future.set_exception(self._value)
        elif self._value is not ...:
            future.set_result(self._value)
        return future

    def __await__(self) -> Any:
        return self.as_future().__await__()


class Method:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.asked = 0

    def remote(self) -> Answer:
        self.asked += 1
        return Answer(self.value)


class Actor:
    def __init__(self, value: Any) -> None:
        self.metrics = Method(value)


class Controller:
    def __init__(self, own: Any, sources: Mapping[str, Actor]) -> None:
        self.metrics_sources = Method(([own], sources))


def snapshot(name: str) -> MetricsSnapshot:
    registry = MetricRegistry()
    registry.counter(name, "").labelled().add()
    return registry.snapshot()


def names(snapshots: list[MetricsSnapshot]) -> set[str]:
    return {family.name for each in snapshots for family in each.families if each.origin != "account"}


def silent(snapshots: list[MetricsSnapshot]) -> list[str]:
    (account,) = [each for each in snapshots if each.origin == "account"]
    return [labels[0] for labels, _ in account.families[1].samples]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long enough for every process that answers, however busy this machine is."""
    monkeypatch.setattr(gathering, "DEADLINE_SECONDS", 100.0)


def test_those_that_answer_are_there_and_the_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "DEADLINE_SECONDS", 0.3)
    monkeypatch.setattr(gathering, "_SOURCES_SHARE", 100)  # the controller, who is not asked for long, answers
    own = snapshot("own")
    sources = {
        "proxy p": Actor(own),  # the same process as that which asks
        "replica r1": Actor(snapshot("r1")),
        "replica r2": Actor(...),
        "replica r3": Actor(ActorDiedError("it died")),
    }
    controller = Controller(snapshot("c"), sources)

    async def run() -> list[MetricsSnapshot]:
        async def find() -> Controller:
            return controller

        return await Gatherer(find, lambda: own).gather()

    snapshots = asyncio.run(run())
    assert names(snapshots) == {"own", "c", "r1"}
    assert len([each for each in snapshots if each.origin == own.origin]) == 1
    assert silent(snapshots) == ["replica r2", "replica r3"]


@pytest.mark.parametrize("trouble", [..., ActorDiedError("it died")])
def test_while_the_controller_is_away_those_are_asked_that_it_named_before(
    trouble: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Controller(snapshot("c"), {"replica r1": Actor(snapshot("r1"))})

    async def run() -> None:
        async def find() -> Controller:
            return controller

        gatherer = Gatherer(find, lambda: snapshot("own"))
        assert names(await gatherer.gather()) == {"own", "c", "r1"}
        controller.metrics_sources.value = trouble
        monkeypatch.setattr(gathering, "DEADLINE_SECONDS", 0.3)
        snapshots = await gatherer.gather()
        assert names(snapshots) == {"own", "r1"} and silent(snapshots) == ["controller"]

    asyncio.run(run())


def test_who_asks_at_the_same_time_shares_a_round_and_may_leave() -> None:
    replica = Actor(snapshot("r1"))
    controller = Controller(snapshot("c"), {"replica r1": replica})

    async def run() -> None:
        async def find() -> Controller:
            return controller

        gatherer = Gatherer(find)
        rounds = [asyncio.create_task(gatherer.gather()) for _ in range(5)]
        await asyncio.sleep(0)
        rounds[0].cancel()
        found = await asyncio.gather(*rounds, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert all(names(each) == {"c", "r1"} for each in found[1:])  # type: ignore[arg-type]
        assert replica.metrics.asked == 1

    asyncio.run(run())
