"""Choosing replicas, waiting and trying again, with replicas that are lists of what they were sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from kernel_serve.errors import (
    BackPressureError,
    DeploymentUnavailableError,
    NotServingError,
    ReplicasDiedError,
    RequestCancelledError,
    RequestTimeoutError,
)
from kernel_serve.replica.gate import AdmissionGate
from kernel_serve.routing.chooser import Chooser
from kernel_serve.routing.dispatcher import Dispatcher, RoutedRequest
from kernel_serve.values import Replica, ReplicaSet
from kernel_serve.wire.link import Exchange, RequestLink


def replica(id: str, limit: int = 1, node: str = "here", models: tuple[str, ...] = ()) -> Replica:
    return Replica(id, node, f"socket of {id}", None, "1", limit, models)


class FakeReplica:
    """Takes what its gate admits; `answer` answers the oldest one. Written bytes arrive with `pump`."""

    def __init__(self, dispatcher: Dispatcher, id: str, limit: int = 1) -> None:
        self.gate = AdmissionGate(limit)
        self.taken: list[Exchange] = []
        self.id = id
        self.to_replica: list[bytes] = []
        self.to_router: list[bytes] = []
        self.router_link = RequestLink(
            self.to_replica.append,
            None,
            lambda said: dispatcher.on_notice(id, said),
            lambda load: dispatcher.on_load(id, load),
            lambda reason: dispatcher.unlinked(id),
        )
        self.link = RequestLink(self.to_router.append, self._take)

    def _take(self, exchange: Exchange, meta: Any, body: bytes, end: bool) -> None:
        refused = self.gate.enter()
        self.link.load = self.gate.ongoing
        if refused:
            exchange.abort({"reason": refused})
        else:
            self.taken.append(exchange)

    def pump(self) -> bool:
        """Deliver what is under way; return whether anything was."""
        up, down = b"".join(self.to_replica), b"".join(self.to_router)
        self.to_replica.clear()
        self.to_router.clear()
        self.link.feed(up)
        self.router_link.feed(down)
        return bool(up or down)

    def answer(self) -> None:
        self.taken.pop(0).send(None, self.id.encode(), end=True)
        self.leave()

    def leave(self) -> None:
        self.gate.leave()
        self.link.load = self.gate.ongoing
        self.link.notify(None)


class Bench:
    """A dispatcher with fake replicas, and the requests sent through it. None: it knows no replicas yet."""

    def __init__(self, limits: dict[str, int] | None, max_queued: int = -1) -> None:
        self.starved = 0
        self.dispatcher = Dispatcher("app#d", "here", Random(1), self._starving)
        self.replicas: dict[str, FakeReplica] = {}
        self.max_queued = max_queued
        self.answers: list[bytes] = []
        self.failures: list[Exception] = []
        if limits is not None:
            self.set(limits)

    def _starving(self) -> None:
        self.starved += 1

    def set(self, limits: dict[str, int], exists: bool = True) -> None:
        replicas = tuple(replica(id, limit) for id, limit in limits.items())
        new, _ = self.dispatcher.update(ReplicaSet("app#d", replicas, self.max_queued, None, exists))
        for each in new:
            fake = self.replicas[each.id] = FakeReplica(self.dispatcher, each.id, each.max_ongoing_requests)
            self.dispatcher.linked(each.id, fake.router_link)
        self.pump()

    def send(self, repeatable: bool = False, timeout: float | None = None) -> RoutedRequest:
        request = RoutedRequest(
            {"type": "call", "route": "/shop", "id": "7"}, b"", True,
            lambda exchange: self.answers.append(exchange.take()[1]), self.failures.append, repeatable,
        )  # fmt: skip
        self.dispatcher.submit(request, timeout)
        self.pump()
        return request

    def pump(self) -> None:
        while any([each.pump() for each in self.replicas.values()]):
            pass

    def answer(self, id: str) -> None:
        self.replicas[id].answer()
        self.pump()

    def lose(self, id: str) -> None:
        self.replicas[id].router_link.lost("killed")


def test_a_request_waits_for_room_and_goes_in_order() -> None:
    bench = Bench({"a": 1})
    for _ in range(3):
        bench.send()
    assert (len(bench.replicas["a"].taken), len(bench.dispatcher.queue)) == (1, 2)
    for left in (1, 0, 0):
        bench.answer("a")
        assert len(bench.dispatcher.queue) == left
    assert bench.answers == [b"a"] * 3


def test_nothing_waits_for_a_deployment_that_is_to_have_no_replicas() -> None:
    bench = Bench({})
    bench.send()
    why = "shop#Till has num_replicas=0: deploy it with more"
    bench.dispatcher.update(ReplicaSet("app#d", (), -1, None, message=why, paused=True))
    bench.send()
    assert [type(each) for each in bench.failures] == [DeploymentUnavailableError] * 2
    assert str(bench.failures[1]) == f"nothing can answer the request: {why}"
    bench.set({})
    bench.send()
    bench.set({"a": 1})
    bench.answer("a")
    assert (bench.answers, len(bench.failures)) == ([b"a"], 2)


def test_more_than_may_wait_are_refused_by_name() -> None:
    bench = Bench({"a": 1}, max_queued=1)
    for _ in range(3):
        bench.send()
    assert isinstance(bench.failures[0], BackPressureError)
    assert "app#d has 1 requests waiting here, as many as max_queued_requests=1 lets" in str(bench.failures[0])


def test_more_than_may_wait_are_refused_too_that_came_before_it_was_known() -> None:
    bench = Bench(None, max_queued=1)
    first = [bench.send() for _ in range(5)]
    bench.set({"a": 1, "b": 1})
    assert [type(each) for each in bench.failures] == [BackPressureError] * 2
    assert [each.over for each in first] == [False, False, False, True, True]
    for id in ("a", "b"):
        bench.answer(id)
    bench.answer("a" if bench.replicas["a"].taken else "b")
    assert (len(bench.answers), len(bench.failures)) == (3, 2)


def test_a_busy_replica_refuses_and_the_request_goes_on() -> None:
    bench = Bench({"a": 1, "b": 1})
    bench.replicas["a"].gate.ongoing = bench.replicas["b"].gate.ongoing = 1  # another router's
    bench.send()
    assert len(bench.dispatcher.queue) == 1  # both have refused
    bench.replicas["b"].leave()
    bench.pump()
    assert len(bench.replicas["b"].taken) == 1


def test_a_draining_replica_gets_nothing_more() -> None:
    bench = Bench({"a": 5, "b": 5})
    bench.replicas["a"].gate.draining = True
    for _ in range(5):
        bench.send()
    assert (len(bench.replicas["a"].taken), len(bench.replicas["b"].taken)) == (0, 5)


def test_what_may_be_repeated_is_sent_again_when_a_replica_dies() -> None:
    bench = Bench({"a": 1})
    bench.send(repeatable=True)
    bench.lose("a")
    assert len(bench.dispatcher.queue) == 1 and not bench.failures
    bench.set({"b": 1})
    bench.answer("b")
    assert bench.answers == [b"b"]


def test_a_request_under_which_two_replicas_died_is_not_sent_to_a_third(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench({"a": 1})
    bench.send(repeatable=True)
    bench.lose("a")
    bench.set({"b": 1})
    bench.lose("b")
    assert [type(each) for each in bench.failures] == [ReplicasDiedError]
    assert str(bench.failures[0]) == (
        "replicas a and b of app#d died while they had the request (killed), so it is not sent again: it may be what "
        "ends them"
    )
    assert "deployment='app#d' route='/shop' request_id='7'" in caplog.text
    bench.set({"c": 1})
    bench.pump()
    assert not bench.replicas["c"].taken and len(bench.dispatcher.queue) == 0
    assert bench.dispatcher.tally.failed == {"replicas_died": 1}


def test_a_replica_that_refused_a_request_did_not_die_under_it() -> None:
    bench = Bench({"a": 1})
    bench.replicas["a"].gate.draining = True
    bench.send(repeatable=True)
    bench.set({"b": 1})
    bench.lose("b")
    assert not bench.failures and len(bench.dispatcher.queue) == 1
    bench.set({"c": 1})
    bench.answer("c")
    assert bench.answers == [b"c"]


def test_when_the_only_replica_dies_those_that_wait_do_so_for_the_next() -> None:
    bench = Bench({"a": 2})
    for _ in range(3):
        bench.send(repeatable=True)
    bench.send()  # not sent yet, so that it may be sent elsewhere
    bench.lose("a")
    assert len(bench.dispatcher.queue) == 4 and not bench.failures
    bench.set({"b": 4})
    for _ in range(4):
        bench.answer("b")
    assert bench.answers == [b"b"] * 4


def test_what_a_replica_never_began_with_is_sent_again_even_if_it_is_not_repeatable() -> None:
    bench = Bench({"a": 5})
    bench.send()
    leaving = bench.replicas["a"]
    leaving.gate.draining = True
    leaving.link.refuse_more()
    request = RoutedRequest(
        {}, b"", True, lambda exchange: bench.answers.append(exchange.take()[1]), bench.failures.append
    )
    bench.dispatcher.submit(request)  # it is under way when the replica ends
    leaving.router_link.feed(b"".join(leaving.to_router))
    bench.lose("a")
    assert [type(each) for each in bench.failures] == [DeploymentUnavailableError], "the one that it had begun with"
    bench.set({"b": 1})
    bench.answer("b")
    assert bench.answers == [b"b"]


def test_what_may_not_be_repeated_fails_and_says_so() -> None:
    bench = Bench({"a": 1})
    bench.send()
    bench.lose("a")
    assert isinstance(bench.failures[0], DeploymentUnavailableError)
    assert "replica a of app#d was lost while it had the request (killed)" in str(bench.failures[0])


def test_without_replicas_a_request_waits_and_asks_for_one() -> None:
    bench = Bench({})
    bench.send()
    assert bench.starved == 1
    bench.set({"a": 1})
    bench.answer("a")
    assert bench.answers == [b"a"]


def test_deleting_a_deployment_fails_those_that_wait() -> None:
    bench = Bench({})
    bench.send()
    bench.set({}, exists=False)
    bench.send()
    assert [type(each) for each in bench.failures] == [NotServingError, NotServingError]


def test_what_a_replica_of_a_deleted_deployment_refuses_fails_and_does_not_wait() -> None:
    bench = Bench({"a": 5})
    leaving = bench.replicas["a"]
    leaving.gate.draining = True
    bench.dispatcher.submit(RoutedRequest({}, b"", True, lambda exchange: None, bench.failures.append))
    bench.set({}, exists=False)  # the refusal arrives after the news
    assert [type(each) for each in bench.failures] == [NotServingError]
    assert len(bench.dispatcher.queue) == 0


def test_a_cancelled_request_leaves_the_line_and_its_replica() -> None:
    bench = Bench({"a": 1})
    sent, waiting = bench.send(), bench.send()
    bench.dispatcher.cancel(waiting)
    bench.dispatcher.cancel(sent)
    bench.pump()
    assert [type(each) for each in bench.failures] == [RequestCancelledError] * 2
    assert bench.replicas["a"].taken[0].failure is not None
    assert len(bench.dispatcher.queue) == 0


def test_a_request_that_waits_too_long_says_for_what() -> None:
    async def go() -> None:
        bench = Bench({})
        bench.send(timeout=0.01)
        deadline = asyncio.get_running_loop().time() + 120
        while not bench.failures and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
        assert isinstance(bench.failures[0], RequestTimeoutError)
        assert "was not begun within 0.01 s: there is no replica" in str(bench.failures[0])

    asyncio.run(go())


def test_the_less_busy_of_two_keeps_queues_short() -> None:
    chooser = Chooser(Random(7), "here")
    chooser.update([replica(str(i), 10_000) for i in range(10)])
    for each in chooser.candidates.values():
        each.reachable = True
    for _ in range(10_000):
        chosen = chooser.choose()
        assert chosen is not None
        chosen.sent += 1
    sent = [each.sent for each in chooser.candidates.values()]
    assert max(sent) - min(sent) <= 10  # at random it would be over a hundred


def test_near_replicas_come_first_while_they_have_room() -> None:
    chooser = Chooser(Random(7), "here")
    chooser.update([replica("near", 2), replica("far", 2, "there")])
    chosen: Counter[str] = Counter()
    for each in chooser.candidates.values():
        each.reachable = True
    for _ in range(4):
        found = chooser.choose()
        assert found is not None
        found.sent += 1
        chosen[found.replica.id] += 1
    assert chosen == {"near": 2, "far": 2}
    assert chooser.choose() is None


def test_whatever_is_opened_for_a_model_goes_where_that_is_loaded() -> None:
    async def play() -> None:
        bench = Bench({"a": 9, "b": 9, "c": 9})
        bench.dispatcher.on_notice("b", {"models": ["m1"]})
        for _ in range(6):  # as a WebSocket is
            opening = asyncio.ensure_future(bench.dispatcher.open({"type": "websocket", "model": "m1"}, b"", False))
            await asyncio.sleep(0)
            bench.pump()
            opening.cancel()
            await asyncio.wait([opening])
        assert [len(bench.replicas[id].taken) for id in "abc"] == [0, 6, 0]

    asyncio.run(play())


@pytest.mark.parametrize("model", ["m1", "unknown"])
def test_a_replica_that_has_the_model_is_preferred(model: str) -> None:
    chooser = Chooser(Random(7), "here")
    chooser.update([replica("a", 5), replica("b", 5, models=("m1",)), replica("c", 5)])
    for each in chooser.candidates.values():
        each.reachable = True
    chosen = {found.replica.id for _ in range(20) if (found := chooser.choose(model))}
    assert chosen == {"b"} if model == "m1" else len(chosen) == 3
