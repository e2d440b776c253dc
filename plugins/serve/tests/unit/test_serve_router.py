"""A process's router between its dispatchers and the controller: what it follows, links to and reports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_serve.errors import NotServingError
from kernel_serve.routing import router as module
from kernel_serve.routing.dispatcher import RoutedRequest
from kernel_serve.routing.router import Router, is_older
from kernel_serve.values import ENDPOINTS, Endpoint, Replica, ReplicaSet, Target

from kernel_spec.errors import KernelError, SessionEndedError

SECONDS = 120.0
KEY = "app#main"


class Link:
    """A link on which nothing ever comes back."""

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        self.on_lost = on_lost
        self.opened: list[Any] = []

    def open(self, meta: Any, body: bytes, end: bool) -> Any:
        exchange = SimpleNamespace(meta=meta, on_closed=None, wake=None, abort=lambda reason: None)
        self.opened.append(exchange)
        return exchange


class World:
    """A controller, and links, in the hands of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched: list[tuple[dict[str, Any], asyncio.Future[Any]]] = []
        self.reports: list[Any] = []
        self.lost: list[Any] = []
        self.links: list[tuple[str, Link]] = []
        self.unreachable: list[Exception] = []
        self.away: Exception | None = None
        remote = lambda function: SimpleNamespace(remote=function)
        self.controller = SimpleNamespace(
            watch=remote(self._watch), report=remote(self._report), lost=remote(self._lost)
        )
        monkeypatch.setattr(module, "find_controller", self._find)
        monkeypatch.setattr(module, "open_link", self._open)
        monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.01)
        monkeypatch.setattr(module, "REPORT_SECONDS", 0.02)

    async def _find(self) -> Any:
        if self.away is not None:
            raise self.away
        return self.controller

    def _watch(self, topics: dict[str, Any]) -> Any:
        future = asyncio.get_running_loop().create_future()
        self.watched.append((dict(topics), future))
        return SimpleNamespace(as_future=lambda: future)

    async def _report(self, report: Any) -> None:
        self.reports.append(report)

    async def _lost(self, *said: Any) -> None:
        self.lost.append(said)

    async def _open(self, replica: Replica, node: str, on_notice: Any, on_load: Any, on_lost: Any) -> Any:
        if self.unreachable:
            raise self.unreachable.pop()
        assert node == "here"
        link = Link(on_lost)
        self.links.append((replica.id, link))
        return link

    async def tell(self, **news: Any) -> None:
        """Answer the router's watch, and return when it watches again."""
        number = len(self.watched)
        self.watched[-1][1].set_result(news.get("news", news))
        await until(lambda: len(self.watched) > number)


async def until(condition: Callable[[], object]) -> None:
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came"
        await asyncio.sleep(0.001)


def replica(id: str) -> Replica:
    return Replica(id, "here", f"socket of {id}", None, "1", 5)


def replica_set(*ids: str, **more: Any) -> ReplicaSet:
    return ReplicaSet(KEY, tuple(replica(id) for id in ids), -1, None, **more)


def request() -> tuple[RoutedRequest, list[Any]]:
    """Return a request, and what becomes of it."""
    failures: list[Any] = []
    return RoutedRequest({"id": "1"}, b"", True, lambda exchange: None, failures.append), failures


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World, Router], Coroutine[Any, Any, None]]], None]:
    """Run a test in a loop, with a router that watches."""

    def run(test: Callable[[World, Router], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            world = World(monkeypatch)
            router = Router("here", Random(1))
            await until(lambda: world.watched)
            await test(world, router)
            router.close()

        asyncio.run(whole())

    return run


def test_it_follows_the_endpoints_and_tells_which_it_knows(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        heard: list[Any] = []
        router.listen(lambda: heard.append(router.endpoints))
        assert world.watched[0][0] == {ENDPOINTS: None} and not router.knows_endpoints
        waiting = asyncio.ensure_future(router.await_endpoints())
        endpoints = (Endpoint("e", "/e", (Target(KEY),)),)
        await world.tell(news={ENDPOINTS: ("life:1", endpoints)})
        await asyncio.wait_for(waiting, SECONDS)
        assert router.knows_endpoints and heard == [endpoints] and router.endpoint_table.named("e") is not None
        assert world.watched[-1][0] == {ENDPOINTS: "life:1"}

    play(test)


def test_a_deployment_is_followed_from_its_first_request_on(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        assert router.dispatcher(KEY) is dispatcher and router.dispatchers == {KEY: dispatcher}
        await until(lambda: len(world.watched) == 2)
        assert world.watched[1][0] == {ENDPOINTS: None, KEY: None}
        await world.tell(news={KEY: ("life:1", replica_set("a", "b")), "other#one": ("life:9", replica_set("x"))})
        assert world.watched[-1][0] == {ENDPOINTS: None, KEY: "life:1"}
        await until(lambda: dispatcher.links.keys() == {"a", "b"})
        assert sorted(id for id, _ in world.links) == ["a", "b"]
        await world.tell(news={KEY: ("life:2", replica_set("b"))})
        assert dispatcher.links.keys() == dispatcher.chooser.candidates.keys() == {"b"}
        assert len(world.links) == 2, "there is a link to that already"

    play(test)


def test_what_waited_is_sent_when_there_is_a_link(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher, (asked, failures) = router.dispatcher(KEY), request()
        dispatcher.submit(asked)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await until(lambda: world.links and world.links[0][1].opened)
        assert failures == []

    play(test)


def test_a_link_to_a_replica_that_is_gone_meanwhile_is_not_used(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        Router._linked(dispatcher, "gone", Link(lambda reason: None))  # type: ignore[arg-type]
        assert dispatcher.links == {}

    play(test)


def test_a_deployment_that_is_deleted_is_forgotten_and_one_that_is_to_come_is_not(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:0", replica_set(exists=False))})
        assert router.dispatchers == {KEY: dispatcher}
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await world.tell(news={KEY: ("life:2", replica_set(exists=False, message="it was deleted"))})
        assert router.dispatchers == {} and world.watched[-1][0] == {ENDPOINTS: None}
        asked, failures = request()
        dispatcher.submit(asked)
        assert [type(error) for error in failures] == [NotServingError]

    play(test)


def test_who_waits_for_news_waits_for_all_that_is_followed_here(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        router.dispatcher(KEY)
        await until(lambda: len(world.watched) == 2)
        waiting = asyncio.ensure_future(router.await_news({KEY: "life:2", ENDPOINTS: "life:1", "other#one": "life:9"}))
        await world.tell(news={ENDPOINTS: ("life:1", ())})
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        assert not waiting.done()
        await world.tell(news={KEY: ("life:3", replica_set("b"))})
        await asyncio.wait_for(waiting, SECONDS)

    play(test)


@pytest.mark.parametrize(
    ("version", "other", "older"),
    [
        (None, "life:0", True),
        ("life:9", "life:10", True),
        ("life:10", "life:10", False),
        ("life:11", "life:10", False),
        ("another:11", "life:10", True),
    ],
)
def test_versions_count_within_a_life_of_the_controller(version: str | None, other: str, older: bool) -> None:
    assert is_older(version, other) is older


@pytest.mark.parametrize("error", [OSError("no such socket"), KernelError("its node is gone")])
def test_a_replica_that_can_t_be_reached_is_told_and_tried_again(play: Any, error: Exception) -> None:
    async def test(world: World, router: Router) -> None:
        world.unreachable = [error, error]
        dispatcher = router.dispatcher(KEY)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await until(lambda: "a" in dispatcher.links)
        assert world.lost == [(KEY, "a", str(error))] * 2

    play(test)


def test_a_lost_link_is_told_and_made_again_while_the_replica_is_named(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a", "b"))})
        await until(lambda: len(dispatcher.links) == 2)
        links = dict(world.links)
        links["a"].on_lost("cut")
        assert dispatcher.links.keys() == {"b"}
        await until(lambda: "a" in dispatcher.links)
        assert world.lost == [(KEY, "a", "cut")] and len(world.links) == 3
        await world.tell(news={KEY: ("life:2", replica_set("a"))})
        links["b"].on_lost("it was to end")
        world.away = KernelError("the controller is away")
        world.links[2][1].on_lost("cut again")
        await until(lambda: len(world.links) == 4)
        assert world.lost == [(KEY, "a", "cut")], "one was to end, and of the other nobody could be told"
        router.close()
        world.links[3][1].on_lost("the end of this process")
        await asyncio.sleep(0)
        assert len(world.links) == 4

    play(test)


def test_while_the_controller_is_away_it_goes_on_with_what_it_knows(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await until(lambda: dispatcher.links)
        asked = len(world.watched)
        world.watched[-1][1].set_exception(KernelError("it died"))
        await until(lambda: len(world.watched) > asked)
        assert world.watched[-1][0] == {ENDPOINTS: None, KEY: "life:1"} and router.dispatchers == {KEY: dispatcher}
        await world.tell(news={KEY: ("nonsense", None)})  # what can't be understood stops nothing
        await world.tell(news={KEY: ("life:2", replica_set("a", "b"))})
        await until(lambda: dispatcher.links.keys() == {"a", "b"})

    play(test)


def test_when_serve_has_ended_what_waits_fails_and_what_is_linked_goes_on(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World, router: Router) -> None:
        linked, waits = router.dispatcher(KEY), router.dispatcher("app#other")
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await until(lambda: linked.links)
        asked, failures = request()
        waits.submit(asked)
        now = [100.0]
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
        world.away = NotServingError("Serve does not run")
        router._not_serving("Serve does not run")
        now[0] += 0.9
        router._not_serving("Serve does not run")
        assert failures == [], "a head that has just begun does not know it either"
        now[0] += 0.1
        router._not_serving("Serve does not run")
        assert [type(error) for error in failures] == [NotServingError] and "Serve does not run" in str(failures[0])
        assert router.dispatchers == {KEY: linked}

    play(test)


def test_the_end_of_the_session_ends_it(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        world.watched[-1][1].set_exception(SessionEndedError("it is over"))
        await until(lambda: not router._tasks)
        assert len(world.watched) == 1

    play(test)


def test_it_reports_what_waits_and_what_is_under_way_while_there_is_any(play: Any) -> None:
    async def test(world: World, router: Router) -> None:
        dispatcher = router.dispatcher(KEY)
        router.dispatcher("app#idle")
        for _ in range(2):
            dispatcher.submit(request()[0])
        await until(lambda: world.reports)
        report = world.reports[0]
        assert (report.queued, report.ongoing, report.node, report.snapshot) == ({KEY: 2}, {}, "here", None)
        await until(lambda: len(world.watched) == 2)
        await world.tell(news={KEY: ("life:1", replica_set("a"))})
        await until(lambda: world.reports[-1].ongoing == {KEY: {"a": 2}})
        assert world.reports[-1].queued == {}
        count = len(world.reports)
        await until(lambda: len(world.reports) > count + 1)  # also when it is the same, as long as there is any
        for exchange in world.links[0][1].opened:
            exchange.failure = None
            exchange.on_closed()
        await until(lambda: world.reports[-1].ongoing == {})
        count = len(world.reports)
        await asyncio.sleep(0.1)
        assert len(world.reports) == count, "there is nothing new to tell"

    play(test)


def test_a_deployment_that_must_wake_is_reported_at_once(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, router: Router) -> None:
        monkeypatch.setattr(module, "REPORT_SECONDS", 600.0)
        await asyncio.sleep(0.05)
        count = len(world.reports)
        router.dispatcher(KEY).submit(request()[0])
        await until(lambda: len(world.reports) > count)
        assert world.reports[-1].queued == {KEY: 1}

    play(test)


def test_a_process_has_one_router_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        World(monkeypatch)
        session = ["one"]
        context = SimpleNamespace(get_worker_id=lambda: session[0], get_node_id=lambda: "the node")
        monkeypatch.setattr(module.kernel, "get_runtime_context", lambda: context)
        monkeypatch.setattr(module, "_router", None)
        first = module.process_router()
        assert module.process_router() is first and first.node == "the node" and not first._closed
        session[0] = "two"
        second = module.process_router()
        assert second is not first and first._closed and module.process_router() is second
        assert module.dispatchers_of_process() == {}
        dispatcher = second.dispatcher(KEY)
        assert module.dispatchers_of_process() == {KEY: dispatcher}
        second.close()

    asyncio.run(test())


@pytest.mark.parametrize("error", [None, KernelError("it died")])
def test_of_an_answer_that_came_too_late_nothing_is_said(error: Exception | None) -> None:
    async def test() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        future.add_done_callback(module._forget)
        future.cancel() if error is None else future.set_exception(error)
        await asyncio.sleep(0)
        del future
        await asyncio.sleep(0)

    complaints: list[str] = []
    asyncio.run(test())
    assert complaints == []


def test_the_controller_is_looked_up_once_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    session, looked = ["one"], []
    context = SimpleNamespace(get_worker_id=lambda: session[0])
    monkeypatch.setattr(module.kernel, "get_runtime_context", lambda: context)
    monkeypatch.setattr(module.kernel, "get_actor", lambda *name: looked.append(name) or len(looked))
    module.forget_controller()
    assert [module.controller_handle(), module.controller_handle()] == [1, 1]
    session[0] = "two"
    assert [module.controller_handle(), module.controller_handle()] == [2, 2]
    module.forget_controller()
    assert module.controller_handle() == 3
    module.forget_controller()

    def missing(*name: str) -> None:
        raise ValueError("no such actor")

    monkeypatch.setattr(module.kernel, "get_actor", missing)
    with pytest.raises(NotServingError, match="Serve does not run in this session: start it with serve.run"):
        module.controller_handle()


async def left_tasks() -> int:
    """Return how many tasks besides this one are left in the loop when each had its turn."""
    await asyncio.sleep(0)
    return len(asyncio.all_tasks()) - 1


def test_a_thread_may_wait_until_the_router_of_its_process_has_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    may_hear = threading.Event()
    asked: list[Any] = []

    async def await_news(versions: Any) -> None:
        asked.append(versions)
        await loop.run_in_executor(None, may_hear.wait)

    context = SimpleNamespace(get_worker_id=lambda: "session")
    monkeypatch.setattr(module.kernel, "get_runtime_context", lambda: context)
    monkeypatch.setattr(module, "data_loop", lambda: loop)
    monkeypatch.setattr(module, "_router", ("another session", SimpleNamespace(await_news=await_news)))
    module.hear_here({KEY: "life:1"})
    assert asked == []
    monkeypatch.setattr(module, "_router", ("session", SimpleNamespace(await_news=await_news, dispatchers={"a": 1})))
    assert module.dispatchers_of_process() == {"a": 1}
    waiting = threading.Thread(target=module.hear_here, args=({KEY: "life:1"},))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive() and asked == [{KEY: "life:1"}]
    may_hear.set()
    waiting.join(SECONDS)
    assert not waiting.is_alive()
    may_hear.clear()
    monkeypatch.setattr(module, "_HEAR_SECONDS", 0.01)
    module.hear_here({KEY: "life:2"})
    assert len(asked) == 2, "it does not wait for ever"
    may_hear.set()
    monkeypatch.setattr(module, "_router", None)
    module.hear_here({KEY: "life:3"})
    assert module.dispatchers_of_process() == {} and len(asked) == 2
    assert asyncio.run_coroutine_threadsafe(left_tasks(), loop).result(SECONDS) == 0, "who gave up waits no more"
    loop.call_soon_threadsafe(loop.stop)
    thread.join(SECONDS)
    loop.close()
