"""`@serve.batch` on an event loop."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import cloudpickle
import pytest
from kernel_serve import context
from kernel_serve.batching.decorator import batch
from kernel_serve.context import RequestContext, enter_request
from kernel_serve.errors import DeploymentError, RequestCancelledError
from kernel_serve.testing.programs import run, until


class Doubler:
    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    @batch(max_batch_size=4, batch_wait_timeout_s=0.01)
    async def double(self, numbers: list[int]) -> list[int]:
        self.batches.append(numbers)
        return [2 * number for number in numbers]


def test_each_caller_gets_its_own_result_and_a_full_batch_does_not_wait() -> None:
    async def program() -> None:
        doubler = Doubler()
        doubler.double.set_batch_wait_timeout_s(1000)
        assert await asyncio.gather(*[doubler.double(number) for number in range(8)]) == list(range(0, 16, 2))
        assert doubler.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]

    run(program)


def test_a_part_of_a_batch_goes_when_its_time_is_over() -> None:
    async def program() -> None:
        doubler = Doubler()
        doubler.double.set_batch_wait_timeout_s(0.05)
        begun = time.monotonic()
        assert await asyncio.gather(doubler.double(1), doubler.double(2)) == [2, 4]
        assert time.monotonic() - begun >= 0.05
        assert doubler.batches == [[1, 2]]

    run(program)


def test_without_a_wait_what_comes_in_one_turn_goes_together() -> None:
    async def program() -> None:
        doubler = Doubler()
        doubler.double.set_batch_wait_timeout_s(0)
        await asyncio.gather(*[doubler.double(number) for number in range(3)])
        assert doubler.batches == [[0, 1, 2]]

    run(program)


def test_what_comes_during_a_batch_goes_after_it_together() -> None:
    async def program() -> None:
        go, seen = asyncio.Event(), []

        @batch(max_batch_size=10, batch_wait_timeout_s=0)
        async def handler(items: list[int]) -> list[int]:
            seen.append(items)
            await go.wait()
            return items

        first = asyncio.create_task(handler(0))
        await until(lambda: seen == [[0]])
        others = [asyncio.create_task(handler(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(first, *others) == [0, 1, 2, 3]
        assert seen == [[0], [1, 2, 3]]

    run(program)


def test_several_batches_at_a_time_if_they_may() -> None:
    async def program() -> None:
        running, most = 0, 0

        @batch(max_batch_size=1, max_concurrent_batches=3)
        async def handler(items: list[int]) -> list[int]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return items

        await asyncio.gather(*[handler(number) for number in range(9)])
        assert most == 3

    run(program)


def test_every_parameter_becomes_a_list_and_defaults_are_filled_in() -> None:
    async def program() -> None:
        seen = []

        @batch
        async def handler(items: list[str], count: Any = 1, *, suffix: Any = "") -> list[str]:
            seen.append((items, count, suffix))
            return [item * times + end for item, times, end in zip(items, count, suffix, strict=True)]

        assert await asyncio.gather(handler("a"), handler("b", 2), handler("c", suffix="!", count=3)) == [
            "a",
            "bb",
            "ccc!",
        ]
        assert seen == [(["a", "b", "c"], [1, 2, 3], ["", "", "!"])]
        with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
            await handler("a", nothing=1)

    run(program)


def test_a_plain_handler_runs_in_a_thread() -> None:
    async def program() -> None:
        threads = []

        @batch
        def handler(items: list[int]) -> list[int]:
            threads.append(threading.current_thread())
            return items

        assert await asyncio.gather(handler(1), handler(2)) == [1, 2]
        assert threads != [] and threads[0] is not threading.current_thread()

    run(program)


def test_what_the_handler_raises_all_callers_of_the_batch_get_and_only_they() -> None:
    async def program() -> None:
        @batch(max_batch_size=2)
        async def handler(items: list[int]) -> list[float]:
            return [1 / item for item in items]

        results = await asyncio.gather(*[handler(item) for item in (1, 0, 4, 2)], return_exceptions=True)
        assert [type(result) for result in results] == [ZeroDivisionError, ZeroDivisionError, float, float]

    run(program)


def test_an_exception_as_a_result_is_raised_to_its_caller_alone() -> None:
    async def program() -> None:
        @batch
        async def handler(items: list[int]) -> list[Any]:
            return [ValueError("odd") if item % 2 else item for item in items]

        results = await asyncio.gather(handler(2), handler(3), return_exceptions=True)
        assert results[0] == 2 and isinstance(results[1], ValueError)

    run(program)


@pytest.mark.parametrize(("kind"), ["async", "plain"])
def test_a_handler_that_raises_stop_iteration_leaves_nobody_waiting(kind: str) -> None:
    async def program() -> None:
        if kind == "async":

            @batch
            async def handler(items: list[int]) -> list[int]:
                return [next(iter([])) for _ in items]
        else:

            @batch
            def handler(items: list[int]) -> list[int]:
                return next(iter([]))

        with pytest.raises(RuntimeError, match="StopIteration"):
            await handler(1)

    run(program)


def test_a_wrong_number_of_results_is_said() -> None:
    async def program() -> None:
        @batch
        async def short(items: list[int]) -> list[int]:
            return items[:1]

        @batch
        async def text(items: list[int]) -> str:
            return "no"

        results = await asyncio.gather(short(1), short(2), text(1), return_exceptions=True)
        assert str(results[0]) == str(results[1])
        assert isinstance(results[0], DeploymentError)
        name = "test_a_wrong_number_of_results_is_said.<locals>.program.<locals>"
        assert str(results[0]) == (
            f"{name}.short is batched and got 2 requests: it must return a list of 2, one for each in order, "
            "but the list has 1"
        )
        assert str(results[2]).endswith("it must return a list of 1, one for each in order, not a str")

    run(program)


def test_who_is_cancelled_leaves_the_batch() -> None:
    async def program() -> None:
        doubler = Doubler()
        doubler.double.set_batch_wait_timeout_s(1000)
        tasks = [asyncio.create_task(doubler.double(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks[1:2])
        doubler.double.set_max_batch_size(2)
        assert await asyncio.gather(tasks[0], tasks[2]) == [0, 4]
        assert doubler.batches == [[0, 2]]

    run(program)


def test_a_batch_for_which_nobody_waits_any_more_is_cancelled_and_the_next_goes() -> None:
    async def program() -> None:
        events = []

        @batch(max_batch_size=2)
        async def handler(items: list[int]) -> list[int]:
            events.append(items)
            if items == [1, 2]:
                try:
                    await asyncio.Event().wait()
                finally:
                    events.append("cancelled")
            return items

        tasks = [asyncio.create_task(handler(number)) for number in (1, 2)]
        await until(lambda: events == [[1, 2]])
        other = asyncio.create_task(handler(3))
        tasks[0].cancel()
        await asyncio.sleep(0.02)
        assert events == [[1, 2]], "one still waits"
        tasks[1].cancel()
        assert await other == 3
        assert events == [[1, 2], "cancelled", [3]]

    run(program)


def test_a_handler_that_cancels_itself_fails_its_callers() -> None:
    async def program() -> None:
        @batch
        async def handler(items: list[int]) -> list[int]:
            raise asyncio.CancelledError

        with pytest.raises(RequestCancelledError, match="handler that was to answer this was cancelled"):
            await handler(1)

    run(program)


class Counter:
    @batch(max_batch_size=2, batch_wait_timeout_s=0.01)
    async def count(self, ends: list[int]) -> AsyncIterator[list[Any]]:
        for number in range(max(ends)):
            yield [number if number < end else StopIteration for end in ends]

    @batch(max_batch_size=2, batch_wait_timeout_s=0.01)
    def count_plainly(self, ends: list[int]) -> Iterator[list[Any]]:
        for number in range(max(ends)):
            yield [number if number < end else StopIteration() for end in ends]


async def collected(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


@pytest.mark.parametrize("method", ["count", "count_plainly"])
def test_a_streaming_batch_gives_each_caller_its_items_and_lets_some_end_early(method: str) -> None:
    async def program() -> None:
        count = getattr(Counter(), method)
        assert await asyncio.gather(collected(count(2)), collected(count(5))) == [[0, 1], [0, 1, 2, 3, 4]]

    run(program)


def test_who_leaves_a_streaming_batch_does_not_disturb_it_and_the_last_one_closes_it() -> None:
    async def program() -> None:
        events: list[Any] = []

        @batch(max_batch_size=2)
        async def handler(items: list[str]) -> AsyncIterator[list[int]]:
            try:
                for number in range(1000):
                    yield [number] * len(items)
                    await asyncio.sleep(0.001)
            finally:
                events.append("closed")

        async def first(count: int) -> list[int]:
            stream, items = handler("x"), []
            async for item in stream:
                items.append(item)
                if len(items) == count:
                    break
            await stream.aclose()
            return items

        assert await asyncio.gather(first(2), first(6)) == [[0, 1], list(range(6))]
        await until(lambda: events == ["closed"])

    run(program)


def test_what_a_stream_raises_comes_after_its_items() -> None:
    async def program() -> None:
        @batch(max_batch_size=2)
        async def handler(items: list[int]) -> AsyncIterator[list[Any]]:
            yield items
            yield [ValueError("only this"), 20]
            raise KeyError("all")

        seen: dict[int, list[Any]] = {1: [], 2: []}

        async def read(number: int) -> None:
            async for item in handler(number):
                seen[number].append(item)

        errors = await asyncio.gather(read(1), read(2), return_exceptions=True)
        assert seen == {1: [1], 2: [2, 20]}
        assert [type(error) for error in errors] == [ValueError, KeyError]

    run(program)


def test_a_stream_that_yields_too_few_says_so() -> None:
    async def program() -> None:
        @batch
        async def handler(items: list[int]) -> AsyncIterator[list[int]]:
            yield []

        with pytest.raises(DeploymentError, match="it must yield a list of 1, one for each in order, but the list"):
            await collected(handler(1))

    run(program)


def test_each_instance_has_its_own_queue_and_settings() -> None:
    async def program() -> None:
        one, two = Doubler(), Doubler()
        one.double.set_max_batch_size(2)
        await asyncio.gather(*[each.double(number) for number in range(4) for each in (one, two)])
        assert one.batches == [[0, 1], [2, 3]] and two.batches == [[0, 1, 2, 3]]
        copied = copy.copy(one)
        copied.batches = []
        await copied.double(9)
        assert copied.batches == [[9]] and [9] not in one.batches

    run(program)


def test_a_subclass_may_use_the_handler_that_it_overrides() -> None:
    class Tripler(Doubler):
        @batch
        async def double(self, numbers: list[int]) -> list[int]:
            return [each + await super(Tripler, self).double(each) for each in numbers]

    assert run(lambda: Tripler().double(5)) == 15


def test_reconfigure_changes_what_waits() -> None:
    async def program() -> None:
        doubler = Doubler()
        doubler.double.set_batch_wait_timeout_s(1000)
        waiting = asyncio.create_task(doubler.double(1))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, doubler.double.set_max_batch_size, 1)
        assert await waiting == 2
        with pytest.raises(DeploymentError, match="max_batch_size is a whole number from 1 on, not 0"):
            doubler.double.set_max_batch_size(0)

    run(program)


def test_a_request_larger_than_a_batch_is_refused_and_others_are_measured() -> None:
    async def program() -> None:
        sizes = []

        @batch(max_batch_size=10, batch_size_fn=lambda texts: sum(map(len, texts)))
        async def handler(texts: list[str]) -> list[int]:
            sizes.append([len(text) for text in texts])
            return sizes[-1]

        assert await asyncio.gather(handler("abcdef"), handler("abc"), handler("ab")) == [6, 3, 2]
        assert sizes == [[6, 3], [2]]
        with pytest.raises(DeploymentError, match="has size 11 by its batch_size_fn, but max_batch_size is 10: send"):
            await handler("x" * 11)

    run(program)


def test_the_batch_sees_its_requests_and_those_for_other_models_go_apart() -> None:
    async def program() -> None:
        seen = []

        @batch(max_batch_size=10, batch_wait_timeout_s=0.001)
        async def handler(items: list[int]) -> list[int]:
            ids = [request.request_id for request in context.batch_requests()]
            seen.append((context.get_multiplexed_model_id(), context.batch_size, ids))
            return items

        async def ask(number: int, model: str) -> None:
            enter_request(RequestContext(request_id=str(number), multiplexed_model_id=model))
            await handler(number)
            assert context.batch_size == 1

        await asyncio.gather(*[asyncio.create_task(ask(number, "ab"[number % 2])) for number in range(4)])
        assert seen == [("a", 2, ["0", "2"]), ("b", 2, ["1", "3"])]

    run(program)


def test_what_is_decorated_looks_like_what_it_is() -> None:
    assert inspect.iscoroutinefunction(Doubler.double) and inspect.iscoroutinefunction(Doubler().double)
    assert inspect.isasyncgenfunction(Counter.count) and inspect.isasyncgenfunction(Counter().count_plainly)
    assert list(inspect.signature(Doubler().double).parameters) == ["numbers"]
    assert run(lambda: Doubler.double(Doubler(), 4)) == 8

    class Callable_:
        @batch
        async def __call__(self, items: list[int]) -> list[int]:
            return items

    assert run(lambda: Callable_()(3)) == 3


def test_it_travels_by_pickle_also_after_use() -> None:
    doubler = Doubler()
    assert run(lambda: doubler.double(1)) == 2
    there = cloudpickle.loads(cloudpickle.dumps(doubler))
    assert run(lambda: there.double(21)) == 42
    assert there.batches == [[1], [21]]

    def module() -> Any:
        @batch(max_batch_size=3)
        async def handler(items: list[int]) -> list[int]:
            return items

        class Local:
            @batch
            async def method(self, items: list[int]) -> list[int]:
                return items

        return handler, Local

    handler, cls = cloudpickle.loads(cloudpickle.dumps(module()))
    assert run(lambda: handler(1)) == 1 and run(lambda: cls().method(2)) == 2


def test_handlers_that_cannot_be_batched_are_refused() -> None:
    with pytest.raises(DeploymentError, match=r"many takes \*items, but a batched handler gets one list for each"):

        @batch
        async def many(*items: Any) -> list[Any]:
            return list(items)

    with pytest.raises(DeploymentError, match="none takes no argument, but a batched handler gets a list of requests"):

        @batch
        async def none() -> list[Any]:
            return []

    with pytest.raises(DeploymentError, match="@serve.batch takes a function or a method, not 3: put it closest"):
        batch(3)  # type: ignore[arg-type]
