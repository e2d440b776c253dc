"""The conformance tests of engines about generators."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import kernel
from kernel_conformance.engine_suite import PATIENCE_SECONDS, EngineSuite, Gate, expect, gates, until, value_of
from kernel_spec.errors import GetTimeoutError


def count(number: int) -> Iterator[int]:
    """Yield numbers."""
    yield from range(number)


def count_and_fail(number: int) -> Iterator[int]:
    """Yield numbers, and raise."""
    yield from range(number)
    raise LookupError("the generator's")


def count_until(gate: Gate, ended: Gate, begun: Gate) -> Iterator[int]:
    """Yield a number, and the next when a gate is open; tell of the end."""
    begun.open()
    try:
        yield 0
        gate.wait()
        yield from range(1, 1000)
    finally:
        ended.open()


class Counter:
    """Has a generator."""

    def count(self, number: int) -> Iterator[int]:
        """Yield numbers."""
        yield from range(number)


class EngineStreams(EngineSuite):
    """Tests of generators."""

    def test_a_generator_yields_references_in_order(self) -> None:
        if not self.generators:
            return
        with self.session():
            stream = kernel.remote(count).remote(20)
            assert [value_of(ref) for ref in stream] == list(range(20))
            assert stream.is_finished()
            expect(StopIteration, next, stream)
            assert list(kernel.remote(count).remote(0)) == []
            assert value_of(list(kernel.remote(count).options(stream_ahead=1).remote(5))) == [0, 1, 2, 3, 4]

    def test_an_error_comes_after_the_items_before_it(self) -> None:
        if not self.generators:
            return
        with self.session():
            *items, last = kernel.remote(count_and_fail).remote(3)
            assert value_of(items) == [0, 1, 2]
            expect(LookupError, value_of, last)

    def test_items_come_while_the_generator_runs(self) -> None:
        if not self.generators:
            return
        with self.session(), gates("gate", "ended", "begun") as (gate, ended, begun):
            if not self.concurrent:
                gate.open()
            stream = kernel.remote(count_until).remote(gate, ended, begun)
            assert value_of(next(stream)) == 0
            if self.concurrent:
                expect(GetTimeoutError, stream.next, 0.01)
                assert kernel.wait([stream], timeout=0.01) == ([], [stream])
            gate.open()
            assert kernel.wait([stream], timeout=PATIENCE_SECONDS) == ([stream], [])
            assert value_of(next(stream)) == 1
            stream.close()
            until(ended.is_open, "a generator whose stream was closed goes on")

    def test_a_stream_that_is_closed_or_forgotten_ends_its_generator(self) -> None:
        if not self.generators:
            return
        with self.session():
            for forgotten in (False, True):
                with gates("gate", "ended", "begun") as (gate, ended, begun):
                    gate.open()
                    stream = kernel.remote(count_until).options(stream_ahead=1).remote(gate, ended, begun)
                    assert value_of(next(stream)) == 0
                    if forgotten:
                        del stream
                        gc.collect()
                    else:
                        stream.close()
                    until(ended.is_open, "the generator of a stream that nobody reads goes on")

    def test_a_stream_is_read_in_a_coroutine(self) -> None:
        if not self.generators:
            return

        async def read() -> list[Any]:
            return [await ref async for ref in kernel.remote(count).remote(5)]

        with self.session():
            assert asyncio.run(asyncio.wait_for(read(), PATIENCE_SECONDS)) == [0, 1, 2, 3, 4]

    def test_a_stream_has_a_reference_to_its_end(self) -> None:
        if not self.generators:
            return
        with self.session():
            stream = kernel.remote(count).remote(3)
            assert kernel.wait([stream.completed()], timeout=PATIENCE_SECONDS)[1] == []
            assert [value_of(ref) for ref in stream] == [0, 1, 2]

    def test_references_of_a_generator_come_in_one_value(self) -> None:
        if not self.generators:
            return
        with self.session():
            refs = value_of(kernel.remote(num_returns="dynamic")(count).remote(4))
            assert [value_of(ref) for ref in refs] == [0, 1, 2, 3]
            failed = kernel.remote(num_returns="dynamic")(count_and_fail).remote(2)
            expect(LookupError, value_of, failed)

    def test_methods_are_generators_too(self) -> None:
        if not (self.generators and self.actors):
            return
        with self.session():
            counter = kernel.remote(Counter).remote()
            assert [value_of(ref) for ref in counter.count.remote(4)] == [0, 1, 2, 3]
