"""Values of a kernel whose serializer moves everything into buffers, head and all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_local_mode.runtime import LocalRuntime

import kernel
from kernel.runtime.current import set_runtime
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.serialization import Buffer, Payload, SerializerBase


class Wholesale(SerializerBase):
    name = "wholesale"

    def encode(self, payload: Payload) -> Payload:
        return Payload(b"", [payload.head, *payload.buffers])

    def decode(self, head: Buffer, buffers: list[Buffer]) -> Payload:  # type: ignore[override]
        return Payload(bytes(buffers[0]), list(buffers[1:]))


@pytest.fixture(autouse=True)
def runtime() -> Iterator[LocalRuntime]:
    kernel.shutdown()
    runtime = LocalRuntime(ValueSerializer([Wholesale()]), "", {"CPU": 1})
    set_runtime(runtime)
    yield runtime
    runtime.shutdown()


@kernel.remote
def total(*values: int, most: bytes = b"") -> int:
    return sum(values) + len(most)


@kernel.remote
def count(n: int) -> Iterator[int]:
    yield from range(n)


@kernel.remote
class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, n: int) -> int:
        self.count += n
        return self.count


def test_small_and_large_arguments_and_results() -> None:
    assert kernel.get(total.remote(1, total.remote(2), most=bytes(200_000))) == 200_003
    assert kernel.get(kernel.put([1, bytes(200_000)])) == [1, bytes(200_000)]


def test_streams_and_their_end() -> None:
    stream = count.remote(3)
    assert kernel.get(list(stream)) == [0, 1, 2]
    assert kernel.get(stream.completed()) is None


def test_dynamic_returns() -> None:
    assert kernel.get(list(kernel.get(count.options(num_returns="dynamic").remote(3)))) == [0, 1, 2]


def test_the_reference_that_an_actor_lives_by() -> None:
    counter = Counter.remote(1)
    assert kernel.get(counter.add.remote(2)) == 3
    assert kernel.get(counter._ref) is None
