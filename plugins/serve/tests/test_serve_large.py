"""Large arguments and results, and references inside of them: in the object store, for as long as they are needed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import numpy as np
import pytest
from kernel_serve.wire.pickling import LARGE, LARGE_PICKLE

import kernel
from kernel import serve
from kernel.testing.faults import kill, wait_until
from kernel.testing.objects import stored_bytes

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0
NUMBER = 4 * LARGE // 8
"""Of floats in an array that is large."""


@serve.deployment(max_ongoing_requests=100)
class Arrays:
    def __init__(self) -> None:
        self.kept: Any = None

    async def __call__(self, value: Any = None, *more: Any) -> Any:
        return value

    async def is_view(self, array: Any) -> bool:
        return not array.flags.writeable and not array.flags.owndata

    async def add(self, one: Any, other: Any) -> Any:
        return one + other

    async def total(self, value: Any) -> Any:
        return value[0], value[1].sum()

    async def keep(self, value: Any) -> None:
        self.kept = value

    async def read_kept(self) -> Any:
        return await self.kept["inside"]

    async def return_kept(self) -> Any:
        return self.kept

    async def make(self, number: int) -> Any:
        return {"inside": kernel.put(np.full(number, 7.0))}

    async def drop(self) -> None:
        self.kept = None

    async def pid(self) -> int:
        return os.getpid()

    async def wait(self, array: Any, seconds: float) -> Any:
        await asyncio.sleep(seconds)
        return array

    async def items(self, count: int) -> AsyncIterator[Any]:
        for n in range(count):
            yield np.full(NUMBER, float(n)) if n % 2 else n

    async def references(self, count: int) -> AsyncIterator[Any]:
        for n in range(count):
            yield [kernel.put(np.full(NUMBER, float(n)))]

    async def fail(self, array: Any) -> Any:
        raise KeyError(len(array))


@serve.deployment(max_ongoing_requests=100)
class Through:
    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    async def __call__(self, array: Any) -> Any:
        return await self.arrays.remote(self.arrays.remote(array))


@pytest.fixture(scope="module")
def through() -> Iterator[Any]:
    kernel.shutdown()
    with kernel.init(num_cpus=8, log_to_driver=False):
        serve.start(proxy_location="Disabled")
        yield serve.run(Through.bind(Arrays.bind()), name="large", route_prefix=None)
        serve.shutdown()


@pytest.fixture
def arrays(through: Any) -> Iterator[Any]:
    """A handle; after each test the store must be as empty as before."""
    handle = serve.get_deployment_handle("Arrays", "large")
    handle.drop.remote().result(SECONDS)
    wait_until(lambda: stored_bytes() == 0, SECONDS, "an empty store")
    yield handle
    handle.drop.remote().result(SECONDS)
    wait_until(lambda: stored_bytes() == 0, SECONDS, "the store is empty again")


def test_both_ways_are_without_copies(arrays: Any) -> None:
    array = np.arange(NUMBER, dtype=np.float64)
    assert arrays.is_view.remote(array).result(SECONDS)
    result = arrays.remote(array).result(SECONDS)
    assert np.array_equal(result, array)
    assert not result.flags.writeable and not result.flags.owndata
    small = arrays.remote(np.arange(10)).result(SECONDS)
    assert small.flags.writeable, "what is small travels by itself"


@pytest.mark.parametrize(
    "value",
    [bytes(LARGE), {"deep": [bytes(LARGE_PICKLE)]}, "x" * LARGE_PICKLE, list(range(LARGE_PICKLE // 2))],
    ids=["bytes", "bytes inside", "text", "lists"],
)
def test_what_is_no_array_may_be_large_too(arrays: Any, value: Any) -> None:
    assert arrays.remote(value).result(SECONDS) == value


def test_arguments_are_those_of_the_call(arrays: Any) -> None:
    array = np.zeros(NUMBER)
    response = arrays.remote(array)
    array[:] = 1
    assert not response.result(SECONDS).any()


def test_awaiting_and_asking_twice(arrays: Any) -> None:
    async def go() -> Any:
        response = arrays.remote(np.ones(NUMBER))
        assert await response is await response
        return await asyncio.gather(*[arrays.remote(np.full(NUMBER, float(n))) for n in range(5)])

    assert [each[0] for each in asyncio.run(go())] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_large_results_are_arguments_of_other_calls(arrays: Any, through: Any) -> None:
    first = arrays.remote(np.ones(NUMBER))
    assert arrays.add.remote(first, arrays.remote(2)).result(SECONDS)[-1] == 3.0
    assert arrays.add.remote(kernel.put(np.ones(NUMBER)), other=kernel.put(3)).result(SECONDS)[-1] == 4.0
    assert through.remote(np.full(NUMBER, 5.0)).result(SECONDS)[-1] == 5.0
    with pytest.raises(KeyError):
        arrays.remote(arrays.fail.remote(first)).result(SECONDS)


def test_a_large_result_is_an_object(arrays: Any) -> None:
    ref = arrays.remote(np.ones(NUMBER))._to_object_ref_sync()
    assert kernel.get(ref).sum() == NUMBER


def test_items_keep_their_order(arrays: Any) -> None:
    stream = arrays.options(stream=True).items.remote(6)
    assert [each if isinstance(each, int) else each[0] for each in stream] == [0, 1.0, 2, 3.0, 4, 5.0]

    async def go() -> list[Any]:
        stream = arrays.options(stream=True).items.remote(6)
        return [each if isinstance(each, int) else each[0] async for each in stream]

    assert asyncio.run(go()) == [0, 1.0, 2, 3.0, 4, 5.0]
    left = arrays.options(stream=True).items.remote(1000)
    assert next(left) == 0 and next(left)[0] == 1.0
    left.cancel()


class Read:
    """Says which process reads it from the object store."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.getpid, ()


def test_what_a_reference_stands_for_is_read_by_the_replica_alone(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    future = kernel.ObjectRef.future

    def watched(ref: kernel.ObjectRef, *, read: bool = True) -> Any:
        seen.append(read)
        return future(ref, read=read)

    monkeypatch.setattr(kernel.ObjectRef, "future", watched)
    ref = kernel.put([Read(), np.ones(NUMBER)])
    reader, total = arrays.add.remote(0, kernel.put(1)).result(SECONDS), arrays.total.remote(ref).result(SECONDS)
    assert (reader, total) == (1, (arrays.pid.remote().result(SECONDS), NUMBER))
    assert seen == [False, False]


def test_a_call_waits_for_its_references_before_it_takes_a_slot(arrays: Any) -> None:
    gate = kernel.KeyValue("test_serve_large_slots")

    @kernel.remote
    def make() -> Any:
        wait_until(lambda: gate.get("open"), SECONDS, "the gate")
        return np.ones(NUMBER)

    late = [arrays.remote(make.options(num_cpus=0.1).remote()) for _ in range(3)]
    for _ in range(10):
        assert arrays.remote(1).result(SECONDS) == 1
    numbers = kernel.get_actor(f"serve replica {replica_of(arrays)}", "kernel_serve").numbers
    wait_until(lambda: kernel.get(numbers.remote())["ongoing"] == 0, SECONDS, "the end of those that wait for nothing")
    gate.put("open", b"yes")
    assert [each.result(SECONDS).sum() for each in late] == [NUMBER] * 3
    gate.delete("open")


def replica_of(handle: Any) -> str:
    (found,) = serve.status()["applications"][handle.app_name]["deployments"][handle.deployment_name]["replicas"]
    return str(found["replica_id"])


def test_references_inside_of_arguments_live_as_long_as_they_are_needed(arrays: Any) -> None:
    inner = kernel.put(np.ones(NUMBER))
    arrays.keep.remote({"inside": inner}).result(SECONDS)
    del inner
    assert arrays.read_kept.remote().result(SECONDS).sum() == NUMBER, "the replica has its own reference"
    assert kernel.get(arrays.return_kept.remote().result(SECONDS)["inside"]).sum() == NUMBER
    arrays.drop.remote().result(SECONDS)
    wait_until(lambda: stored_bytes() == 0, SECONDS, "it is freed where nobody keeps it")


def test_references_inside_of_results(arrays: Any) -> None:
    found = arrays.make.remote(NUMBER).result(SECONDS)
    assert kernel.get(found["inside"]).sum() == 7 * NUMBER
    assert kernel.get(arrays.remote(found).result(SECONDS)["inside"])[0] == 7.0
    for n, (each,) in enumerate(arrays.options(stream=True).references.remote(3)):
        assert kernel.get(each)[0] == n
    del found, each


def test_references_to_what_is_still_made(arrays: Any) -> None:
    gate = kernel.KeyValue("test_serve_large")

    @kernel.remote
    def make() -> Any:
        wait_until(lambda: gate.get("open"), SECONDS, "the gate")
        return np.ones(NUMBER)

    found = arrays.remote([make.remote()])
    (inner,) = found.result(SECONDS)
    gate.put("open", b"yes")
    assert kernel.get(inner, timeout=SECONDS).sum() == NUMBER
    gate.delete("open")


def test_calls_that_are_cancelled_leave_nothing(arrays: Any) -> None:
    response = arrays.wait.remote(np.ones(NUMBER), 10 * SECONDS)
    response.cancel()
    with pytest.raises(serve.RequestCancelledError):
        response.result(SECONDS)
    for _ in range(20):  # some are cancelled before they are sent, some while their result is collected
        arrays.wait.remote(np.ones(NUMBER), 0.0).cancel()
    with pytest.raises(serve.RequestTimeoutError):
        arrays.options(timeout_s=0.05).wait.remote(np.ones(NUMBER), 10 * SECONDS).result(SECONDS)


def test_failures_let_go_of_arguments(arrays: Any) -> None:
    with pytest.raises(KeyError, match=str(NUMBER)):
        arrays.fail.remote(np.ones(NUMBER)).result(SECONDS)
    with pytest.raises(TypeError):
        arrays.fail.remote(np.ones(NUMBER), 1, 2).result(SECONDS)


def test_results_outlive_their_replica(arrays: Any) -> None:
    response = arrays.remote(np.full(NUMBER, 3.0))
    inner = kernel.put(np.ones(NUMBER))
    kept = arrays.remote([inner])
    pid = arrays.pid.remote().result(SECONDS)
    result = response.result(SECONDS)
    (back,) = kept.result(SECONDS)
    kill(pid)
    again = arrays.options(retry=True)
    wait_until(lambda: again.pid.remote().result(SECONDS) != pid, SECONDS, "another replica")
    assert result.sum() == 3 * NUMBER
    assert arrays.remote(response).result(SECONDS)[0] == 3.0
    assert kernel.get(back).sum() == NUMBER


def test_what_died_with_a_replica_is_said(arrays: Any) -> None:
    pid = arrays.pid.remote().result(SECONDS)
    found = arrays.make.remote(NUMBER).result(SECONDS)
    waiting = arrays.wait.remote(np.ones(NUMBER), 10 * SECONDS)
    wait_until(lambda: stored_bytes() > 8 * NUMBER, SECONDS, "the arguments are on their way")
    kill(pid)
    with pytest.raises(serve.DeploymentUnavailableError):
        waiting.result(SECONDS)
    wait_until(lambda: arrays.options(retry=True).pid.remote().result(SECONDS) != pid, SECONDS, "another replica")
    with pytest.raises(kernel.exceptions.OwnerDiedError):
        kernel.get(found["inside"], timeout=SECONDS)
    with pytest.raises(kernel.exceptions.OwnerDiedError):
        arrays.remote(found["inside"]).result(SECONDS)


def test_a_call_that_is_repeated_has_its_arguments(arrays: Any) -> None:
    pid = arrays.pid.remote().result(SECONDS)
    response = arrays.options(retry=True).wait.remote(np.full(NUMBER, 4.0), 1.0)
    wait_until(lambda: stored_bytes() > 0, SECONDS, "the arguments are on their way")
    kill(pid)
    assert response.result(SECONDS)[0] == 4.0


def test_no_large_result_is_lost_in_an_update(arrays: Any) -> None:
    array = np.full(8 * NUMBER, 2.0)
    over = threading.Event()
    handle = serve.run(Arrays.options(version="1").bind(), name="updated", route_prefix=None)

    def call() -> None:
        done = 0
        while not over.is_set() or done < 2:
            assert handle.wait.remote(array, 0.01).result(SECONDS)[-1] == 2.0
            done += 1

    with ThreadPoolExecutor(3) as threads:
        calling = [threads.submit(call) for _ in range(3)]
        for version in ("2", "3"):
            serve.run(Arrays.options(version=version).bind(), name="updated", route_prefix=None)
        over.set()
        for each in calling:
            each.result(SECONDS)
    serve.delete("updated")
