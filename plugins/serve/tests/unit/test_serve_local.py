"""Applications in the process of a test, without a session: `serve.run(app, _local_testing_mode=True)`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

SECONDS = 120.0


@serve.deployment
class Adder:
    def __init__(self, by: int) -> None:
        self.by = by
        self.calls: list[int] = []

    def __call__(self, number: int) -> int:
        self.calls.append(number)
        return number + self.by

    def seen(self) -> list[int]:
        return self.calls

    def extend(self, numbers: list[int]) -> list[int]:
        numbers.append(self.by)
        return numbers


@serve.deployment
def double(number: int) -> int:
    return number * 2


@serve.deployment(user_config={"unit": "m"})
class Front:
    def __init__(self, adder: Any, other: Any, doubler: Any) -> None:
        self.adder, self.other, self.doubler = adder, other, doubler
        self.ended: list[str] = []

    def reconfigure(self, user_config: dict[str, str]) -> None:
        self.unit = user_config["unit"]

    async def __call__(self, number: int) -> str:
        return f"{await self.doubler.remote(self.other.remote(self.adder.remote(number)))} {self.unit}"

    async def count(self, end: int) -> Any:
        try:
            for number in range(end):
                yield await self.adder.remote(number)
        finally:
            self.ended.append("count")

    def spell(self, word: str) -> Any:
        yield from word

    async def fail(self) -> None:
        raise KeyError("nothing here")

    async def forever(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("forever")

    async def call(self, handle: Any, number: int) -> int:
        result: int = await handle.remote(number)
        return result

    async def where(self) -> tuple[str, str, bool]:
        context = serve.get_replica_context()
        return context.app_name, context.deployment, context.servable_object is self

    async def model(self) -> str:
        return serve.get_multiplexed_model_id()

    async def ends(self) -> list[str]:
        return self.ended


@pytest.fixture
def handle() -> Any:
    kernel.shutdown()
    app = Front.bind(Adder.bind(1), Adder.bind(10), double.bind())
    yield serve.run(app, name="here", _local_testing_mode=True)
    assert not kernel.is_initialized()


def test_an_application_is_called_as_it_is_elsewhere(handle: Any) -> None:
    assert handle.remote(1).result(SECONDS) == "24 m"
    assert asyncio.run(_ask(handle)) == ["24 m", "26 m"]
    assert list(handle.count.options(stream=True).remote(300)) == list(range(1, 301))
    assert list(handle.options(method_name="spell", stream=True).remote("tea")) == ["t", "e", "a"]
    assert handle.where.remote().result(SECONDS) == ("here", "Front", True)
    assert handle.model.options(multiplexed_model_id="fr").remote().result(SECONDS) == "fr"


async def _ask(handle: Any) -> list[str]:
    return list(await asyncio.gather(handle.remote(1), handle.remote(2)))


def test_arguments_are_copied_and_handles_are_not_lost(handle: Any) -> None:
    adder = serve.run(Adder.bind(5), name="adder", _local_testing_mode=True)
    numbers = [1]
    assert adder.extend.remote(numbers).result(SECONDS) == [1, 5] and numbers == [1]
    assert handle.call.remote(adder, 2).result(SECONDS) == 7
    assert adder.seen.remote().result(SECONDS) == [2]
    with pytest.raises(kernel.exceptions.SerializationError, match="lock"):
        adder.remote(threading.Lock()).result(SECONDS)


def test_what_goes_wrong_is_raised(handle: Any) -> None:
    with pytest.raises(KeyError, match="nothing here") as raised:
        handle.fail.remote().result(SECONDS)
    assert "fail" in [entry.name for entry in raised.traceback]
    with pytest.raises(serve.DeploymentError, match="deployment Front has no method 'nothing'"):
        handle.nothing.remote().result(SECONDS)
    with pytest.raises(TypeError, match=r"Front.count\(\) is a generator: call it with handle.options\(stream=True\)"):
        handle.count.remote(1).result(SECONDS)
    with pytest.raises(TypeError, match="but returned a list"):
        list(handle.ends.options(stream=True).remote())
    with pytest.raises(serve.RequestTimeoutError, match="did not return within 0.05 s"):
        handle.forever.options(timeout_s=0.05).remote().result(SECONDS)


def test_calls_are_cancelled_and_streams_closed(handle: Any) -> None:
    response = handle.forever.remote()
    stream = handle.count.options(stream=True).remote(10_000)
    assert next(stream) == 1
    handle.ends.remote().result(SECONDS)
    response.cancel()
    stream.cancel()
    with pytest.raises(serve.RequestCancelledError):
        response.result(SECONDS)
    wait_until(lambda: sorted(handle.ends.remote().result(SECONDS)) == ["count", "forever"], SECONDS, "both ends")


def test_a_constructor_that_raises_is_told_with_its_traceback() -> None:
    @serve.deployment
    class Broken:
        async def __init__(self) -> None:
            raise ValueError("no weights")

    with pytest.raises(serve.DeployFailedError, match=r"(?s)Broken failed:\nTraceback.*in __init__.*no weights"):
        serve.run(Broken.bind(), _local_testing_mode=True)


def test_batches_and_models_work() -> None:
    @serve.deployment
    class Batched:
        @serve.batch(max_batch_size=4, batch_wait_timeout_s=1000)
        async def __call__(self, numbers: list[int]) -> list[tuple[int, int]]:
            return [(number, len(numbers)) for number in numbers]

        @serve.multiplexed(max_num_models_per_replica=2)
        async def load(self, name: str) -> str:
            return f"model {name}"

        async def model(self) -> str:
            loaded: str = await self.load()
            return loaded

    handle = serve.run(Batched.bind(), _local_testing_mode=True)
    responses = [handle.remote(number) for number in range(4)]
    assert [each.result(SECONDS) for each in responses] == [(number, 4) for number in range(4)]
    assert handle.model.options(multiplexed_model_id="fr").remote().result(SECONDS) == "model fr"
