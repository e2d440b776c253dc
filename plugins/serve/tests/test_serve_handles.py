"""Handles in a real session: results, streams, failures, time, and all the places from which they are called."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import cloudpickle
import httpx
import numpy as np
import psutil
import pytest

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0
FOREVER = 10 * SECONDS
"""So long a call lasts that is to be ended before."""


class Base(BaseException):
    """Is no Exception."""


class Odd(Exception):
    """Can be pickled, and not be read by pickle."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")
        self.one = one


@serve.deployment(max_ongoing_requests=1000)
class Worker:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, value: Any = None) -> Any:
        return value

    def plain(self, value: Any) -> Any:
        return value

    async def add(self, one: Any, *, other: Any = 1) -> Any:
        return one + other

    async def sleep(self, seconds: float) -> str:
        self.seen.append("asleep")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise
        return "slept"

    async def hold(self) -> str:
        self.seen.append("held")
        while "let go" not in self.seen:
            await asyncio.sleep(0.01)
        return "held"

    async def let_go(self) -> None:
        self.seen.append("let go")

    async def list_seen(self) -> list[str]:
        return self.seen

    async def request_id(self) -> str:
        from kernel_serve.context import current_request

        return current_request().request_id

    async def fail(self, how: str) -> Any:
        if how == "odd":
            raise Odd(1, 2)
        if how == "lock":
            raise ValueError(threading.Lock())
        if how == "large":
            raise ValueError("x" * 1_000_000)
        if how == "nothing":

            class Stays(Exception):
                """Can't be sent, not even its class."""

                lock = threading.Lock()

            raise Stays("it says why")
        if how == "result":
            return threading.Lock()
        if how == "exit":
            sys.exit(1)
        if how == "base":
            raise Base(how)
        if how == "generator":
            raise GeneratorExit
        if how == "batch":
            await self.fail_together(how)
        if how == "model":
            await self.fail_loading(how)
        if how == "task":
            leaving = asyncio.create_task(self.fail("exit"))
            await asyncio.wait([leaving])
        raise KeyError(how)

    @serve.batch
    async def fail_together(self, hows: list[str]) -> Any:
        sys.exit(1)

    @serve.multiplexed
    async def fail_loading(self, model_id: str) -> Any:
        sys.exit(1)

    def count(self, number: int, size: int = 0) -> Iterator[Any]:
        self.seen[:] = ["counting"]
        try:
            for n in range(number):
                self.seen[0] = f"counted {n}"
                yield bytes(size) if size else n
        finally:
            self.seen.append("count ended")

    async def count_async(self, number: int) -> Any:
        for n in range(number):
            yield n
        raise KeyError("at the end")

    def count_oddly(self) -> Iterator[int]:
        yield 0
        raise Odd(3, 4)


@serve.deployment(max_ongoing_requests=1000)
class Caller:
    def __init__(self, worker: Any) -> None:
        self.worker = worker

    async def __call__(self, request: Any) -> Any:
        return await self.worker.request_id.remote()

    async def sleep(self, seconds: float) -> Any:
        return await self.worker.sleep.remote(seconds)

    async def blocked(self) -> Any:
        return self.worker.remote(1).result()

    def threaded(self) -> Any:
        return self.worker.remote(1).result()

    async def stream(self, number: int) -> Any:
        async for item in self.worker.options(stream=True).count.remote(number):
            yield item

    async def fails(self, how: str = "deep") -> Any:
        return await self.worker.fail.remote(how)

    async def asks(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            handle = serve.get_deployment_handle("Worker", "calls")
            return await handle.remote(serve.status().applications["calls"].status)


@pytest.fixture(scope="module")
def caller(address: Any) -> Any:
    return serve.run(Caller.bind(Worker.bind()), name="calls", route_prefix="/calls")


@pytest.fixture(scope="module")
def worker(caller: Any) -> Any:
    return serve.get_deployment_handle("Worker", "calls")


def test_results_come_to_threads_and_to_event_loops(worker: Any) -> None:
    assert worker.remote("x").result(SECONDS) == "x"
    assert worker.plain.remote({"a": 1}).result(SECONDS) == {"a": 1}
    assert worker.add.remote(1, other=2).result(SECONDS) == 3

    async def go() -> list[Any]:
        first = worker.remote(0)
        assert await first == await first == 0
        return await asyncio.gather(*[worker.remote(n) for n in range(500)])

    assert asyncio.run(go()) == list(range(500))
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(worker.remote(n).result(SECONDS) for n in range(50)))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(SECONDS)
    assert sorted(found) == sorted(list(range(50)) * 8)


def test_ten_thousand_at_once(worker: Any) -> None:
    responses = [worker.remote(n) for n in range(10_000)]
    assert [each.result(SECONDS) for each in responses] == list(range(10_000))


def test_arguments_are_those_of_the_call(worker: Any) -> None:
    values = [1]
    response = worker.remote(values)
    values.append(2)
    assert response.result(SECONDS) == [1]


def test_results_of_calls_and_objects_are_arguments(worker: Any) -> None:
    ref = kernel.put(40)
    assert worker.add.remote(ref, other=worker.remote(2)).result(SECONDS) == 42
    chained = worker.remote(0)
    for _ in range(20):
        chained = worker.add.remote(chained)
    assert chained.result(SECONDS) == 20
    with pytest.raises(KeyError, match="first"):
        worker.add.remote(worker.fail.remote("first")).result(SECONDS)

    @kernel.remote
    def broken() -> None:
        raise ValueError("of the task")

    with pytest.raises(ValueError, match="of the task"):
        worker.add.remote(broken.remote()).result(SECONDS)
    stream = worker.options(stream=True).count.remote(1)
    with pytest.raises(serve.DeploymentError, match="a stream, which can't be an argument"):
        worker.remote(stream).result(SECONDS)


def test_large_arguments_and_results(worker: Any) -> None:
    array = np.arange(6_250_000, dtype=np.float64)
    assert np.array_equal(worker.add.remote(array).result(SECONDS), array + 1)
    large = worker.options(stream=True).count.remote(3, 3_000_000)
    assert [len(each) for each in large] == [3_000_000] * 3


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        ("why", KeyError, "why"),
        ("odd", Odd, "^1 and 2"),
        ("lock", ValueError, "lock object"),
        ("large", ValueError, "xxx"),
        ("nothing", serve.UserCodeError, "Stays: it says why"),
        ("result", kernel.exceptions.SerializationError, "a lock can't be sent to another process"),
        ("exit", serve.DeploymentError, "a request can't end its replica"),
        ("base", serve.DeploymentError, "raised Base.'base'.: a request can't end its replica"),
        ("generator", serve.UserCodeError, "GeneratorExit"),
        ("batch", serve.DeploymentError, "a request can't end its replica"),
        ("model", serve.DeploymentError, "a request can't end its replica"),
        ("task", KeyError, "task"),
    ],
)
def test_failures_come_back(worker: Any, how: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        worker.fail.remote(how).result(SECONDS)
    assert "in fail" in str(caught.value.__cause__ or caught.value) or "end its replica" in text or how == "result"
    assert worker.remote(1).result(SECONDS) == 1


def test_an_error_has_its_class_and_attributes_through_several_hops_and_in_streams(worker: Any, caller: Any) -> None:
    for call in (worker.fail.remote("odd"), caller.fails.remote("odd")):
        with pytest.raises(Odd) as caught:
            call.result(SECONDS)
        assert caught.value.one == 1 and str(caught.value).startswith("1 and 2")
        assert "raise Odd(1, 2)" in str(caught.value.__cause__)
    items = worker.options(stream=True).count_oddly.remote()
    assert next(items) == 0
    with pytest.raises(Odd, match="^3 and 4"):
        next(items)


def test_serve_can_be_asked_in_an_event_loop(caller: Any) -> None:
    async def status() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return serve.status().applications["calls"].status

    assert caller.asks.remote().result(SECONDS) == asyncio.run(status()) == "RUNNING"


def test_wrong_calls_say_what_is_right(worker: Any, caller: Any) -> None:
    with pytest.raises(serve.DeploymentError, match="has no method 'nothing'; it has __call__, add"):
        worker.nothing.remote().result(SECONDS)
    with pytest.raises(TypeError, match=r"call it with handle.options\(stream=True\)"):
        worker.count.remote(1).result(SECONDS)
    with pytest.raises(TypeError, match="but returned a"):
        next(worker.options(stream=True).remote(1))
    with pytest.raises(TypeError, match="positional"):
        worker.remote(1, 2, 3).result(SECONDS)
    with pytest.raises(kernel.exceptions.SerializationError, match="lock"):
        worker.remote(threading.Lock()).result(SECONDS)
    with pytest.raises(kernel.exceptions.SerializationError, match=r"can't be sent within another value.*await it"):
        worker.remote([worker.remote(1)]).result(SECONDS)
    with pytest.raises(serve.DeploymentError, match="await the response instead"):
        caller.blocked.remote().result(SECONDS)
    assert caller.threaded.remote().result(SECONDS) == 1
    with pytest.raises(serve.NotServingError, match="there is no deployment calls#Nobody"):
        serve.DeploymentHandle("Nobody", "calls").remote().result(SECONDS)
    with pytest.raises(KeyError, match="deep"):
        caller.fails.remote().result(SECONDS)


def _wait(worker: Any, what: str) -> None:
    wait_until(lambda: what in worker.list_seen.remote().result(SECONDS), SECONDS, what)


def _forget(worker: Any) -> None:
    list(worker.options(stream=True).count.remote(0))


def test_calls_are_cancelled_through_all_hops(worker: Any, caller: Any) -> None:
    for begin in (worker.sleep, caller.sleep):
        _forget(worker)
        response = begin.remote(FOREVER)
        _wait(worker, "asleep")
        assert not response.cancelled()
        response.cancel()
        assert response.cancelled()
        with pytest.raises(serve.RequestCancelledError):
            response.result(SECONDS)
        _wait(worker, "cancelled")
    _forget(worker)

    async def go() -> None:
        response = worker.sleep.remote(FOREVER)
        await asyncio.to_thread(_wait, worker, "asleep")
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(response, 0.2)

    asyncio.run(go())
    _wait(worker, "cancelled")


def test_time_is_limited(worker: Any) -> None:
    _forget(worker)
    response = worker.hold.remote()
    with pytest.raises(serve.RequestTimeoutError, match="it goes on"):
        response.result(0.1)
    worker.let_go.remote().result(SECONDS)
    assert response.result(SECONDS) == "held"

    def has_begun_in_time() -> bool:
        with pytest.raises(serve.RequestTimeoutError, match="did not return within 1 s"):
            worker.options(timeout_s=1.0).sleep.remote(FOREVER).result(SECONDS)
        return "asleep" in worker.list_seen.remote().result(SECONDS)

    wait_until(has_begun_in_time, SECONDS, "a call that begins before its time is over")
    _wait(worker, "cancelled")


def test_streams(worker: Any, caller: Any) -> None:
    count = worker.options(stream=True).count
    assert list(count.remote(5000)) == list(range(5000))
    assert list(caller.options(stream=True).stream.remote(100)) == list(range(100))

    async def go() -> list[int]:
        items, stream = [], worker.options(stream=True).count_async.remote(1000)
        with pytest.raises(KeyError, match="at the end"):
            async for item in stream:
                items.append(item)
        return items

    assert asyncio.run(go()) == list(range(1000))


def test_a_stream_that_nobody_reads_stops(worker: Any) -> None:
    before = psutil.Process().memory_info().rss
    stream = worker.options(stream=True).count.remote(1000, 1 << 20)
    next(stream)
    seen = ""
    while seen != (seen := worker.list_seen.remote().result(SECONDS)[0]) or not seen.startswith("counted"):
        time.sleep(0.2)
    assert int(seen.split()[1]) < 50
    assert psutil.Process().memory_info().rss - before < 60 << 20
    del stream
    _wait(worker, "count ended")
    endless = worker.options(stream=True).count.remote(10_000_000)
    for item in endless:
        if item == 1000:
            endless.cancel()
            break
    with pytest.raises(serve.RequestCancelledError):
        list(endless)
    _wait(worker, "count ended")


def test_handles_work_in_tasks_and_actors(worker: Any) -> None:
    @kernel.remote
    def task(handle: Any) -> Any:
        return handle.remote("task").result(SECONDS), list(handle.options(stream=True).count.remote(3))

    @kernel.remote
    class Actor:
        async def call(self, handle: Any) -> Any:
            return await handle.remote("actor")

        def __init__(self, handle: Any) -> None:
            self.first = handle.remote("first").result(SECONDS)

    assert kernel.get(task.remote(worker)) == ("task", [0, 1, 2])
    actor = Actor.remote(worker)
    assert kernel.get(actor.call.remote(worker)) == "actor"
    kernel.kill(actor)


def test_an_id_goes_through_all_hops(caller: Any, address: tuple[str, int]) -> None:
    answer = httpx.get("http://{}:{}/calls".format(*address), headers={"x-request-id": "mine"}, timeout=SECONDS)
    assert answer.text == "mine"


def test_serve_can_be_started_again(worker: Any) -> None:
    serve.shutdown()
    with pytest.raises(serve.NotServingError):
        serve.status()
    serve.start(http_options={"port": 0})  # the usual one may be another program's
    handle = serve.run(Worker.bind(), name="calls", route_prefix=None)
    assert handle.remote(5).result(SECONDS) == 5
    assert worker.remote(6).result(SECONDS) == 6
