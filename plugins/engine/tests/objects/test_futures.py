"""Who is told that a value or an item is there: others' faults and closed loops keep nobody from it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel.runtime.object_entry import INLINE, ObjectEntry
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import ObjectStream
from kernel.runtime.waiter import Waiter
from kernel.testing.faults import wait_until
from kernel_engine.objects.futures import DELIVERY_THREAD, Futures
from kernel_engine.objects.stream_consumer import StreamConsumer
from kernel_spec.errors import GetTimeoutError
from kernel_spec.ids import ObjectId, TaskId

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


@pytest.fixture
def entry() -> ObjectEntry:
    return ObjectEntry(ObjectId(bytes(20)), 1)


@pytest.fixture
def futures() -> Futures:
    return Futures(ObjectEntry.when_ready, lambda entry: entry.value, lambda entry: None)


def give_up_on(wait: Callable[[asyncio.AbstractEventLoop], Any]) -> None:
    """Await a future in a loop that is closed before it is there."""

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(asyncio.get_running_loop()), 0.01)

    asyncio.run(main())


def test_a_value_that_comes_after_its_loop_was_closed(entry: ObjectEntry, futures: Futures) -> None:
    ref = ObjectRef(entry)
    give_up_on(lambda loop: futures.deliver_async(ref, loop))
    with capture_logs() as logs:
        entry.resolve(INLINE, b"")
    assert not logs


def test_an_item_that_comes_after_its_loop_was_closed(entry: ObjectEntry) -> None:
    process: Any = SimpleNamespace(lock=threading.RLock(), after_batch=lambda leftovers, function: None)
    consumer = StreamConsumer(process, lambda waiter, entries, deadline: False, lambda entry: "")
    stream = ObjectStream(TaskId(bytes(16)), None, 0)
    give_up_on(lambda loop: consumer.item_arrival(stream, loop))
    with capture_logs() as logs:
        stream.append(ObjectRef(entry), 1)
    assert not logs


def test_a_value_reaches_a_loop_from_its_own_thread_and_from_others(entry: ObjectEntry, futures: Futures) -> None:
    async def main() -> list[bytes]:
        loop = asyncio.get_running_loop()
        other = ObjectEntry(ObjectId(bytes(20)), 1)
        waiting = [futures.deliver_async(ObjectRef(each), loop) for each in (entry, other)]
        entry.resolve(INLINE, b"here")
        threading.Thread(target=other.resolve, args=(INLINE, b"there")).start()
        return await asyncio.wait_for(asyncio.gather(*waiting), SECONDS)

    assert asyncio.run(main()) == [b"here", b"there"]


def test_one_that_fails_to_hear_of_a_value_keeps_no_other_from_it(entry: ObjectEntry) -> None:
    received: list[ObjectEntry] = []
    waiter = Waiter(1)
    for each in (lambda entry: 1 / 0, received.append, waiter):
        entry.when_ready(each)
    with capture_logs() as logs:
        entry.resolve(INLINE, b"")
    assert (received, waiter.remaining) == ([entry], 0)
    assert [line["event"] for line in logs] == ["what waited for an object failed"]
    assert logs[0]["object"] == entry.id.hex()


def test_one_that_fails_to_hear_of_an_item_keeps_no_other_from_it(entry: ObjectEntry) -> None:
    stream = ObjectStream(TaskId(bytes(16)), None, 0)
    received: list[int] = []
    waiter = Waiter(1)
    for each in (lambda: 1 / 0, lambda: received.append(1), waiter):
        stream.when_changed(each)
    with capture_logs() as logs:
        stream.append(ObjectRef(entry), 1)
    assert (received, waiter.remaining) == ([1], 0)
    assert [line["event"] for line in logs] == ["what waited for a stream failed"]


def test_futures_are_filled_where_it_may_block(futures: Futures) -> None:
    """Neither reading a value nor calling back happens in the thread that tells of it; nobody waits for others."""
    entries = [ObjectEntry(ObjectId(bytes(20)), 1) for _ in range(10)]
    all_here = threading.Barrier(len(entries))
    values: list[concurrent.futures.Future[Any]] = [concurrent.futures.Future() for _ in entries]
    called: list[concurrent.futures.Future[None]] = [concurrent.futures.Future() for _ in entries]
    for entry, value, call in zip(entries, values, called, strict=True):
        futures.deliver(ObjectRef(entry), value)
        value.add_done_callback(lambda value, call=call: (all_here.wait(SECONDS), call.set_result(None)))  # type: ignore[misc]
    for entry in entries:
        entry.resolve(INLINE, b"here")
    for value, call in zip(values, called, strict=True):
        assert value.result(SECONDS) == b"here"
        call.result(SECONDS)
    idle = lambda: all(thread.name != DELIVERY_THREAD for thread in threading.enumerate())
    wait_until(idle, SECONDS, "the end of threads without work")


def test_a_future_of_what_can_not_be_read(entry: ObjectEntry) -> None:
    def load(entry: ObjectEntry) -> Any:
        raise StopIteration

    futures = Futures(ObjectEntry.when_ready, load, lambda entry: None)
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    futures.deliver(ObjectRef(entry), future)
    entry.resolve(INLINE, b"")
    assert isinstance(future.exception(SECONDS), StopIteration)


def test_a_failure_with_a_future_has_its_reader_before_a_thread_comes_to_it(entry: ObjectEntry) -> None:
    """The process may end before that, and would say that nobody has asked for it."""
    asked: list[ObjectEntry] = []
    reading = threading.Event()
    futures = Futures(ObjectEntry.when_ready, lambda entry: reading.wait(SECONDS), asked.append)
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    futures.deliver(ObjectRef(entry), future)
    assert asked == []
    entry.resolve(INLINE, b"")
    assert asked == [entry] and not future.done()
    reading.set()
    assert future.result(SECONDS)


def test_a_failure_whose_awaiter_is_gone_has_no_reader(entry: ObjectEntry) -> None:
    asked: list[ObjectEntry] = []
    futures = Futures(ObjectEntry.when_ready, lambda entry: entry.value, asked.append)
    ref = ObjectRef(entry)
    give_up_on(lambda loop: futures.deliver_async(ref, loop))
    entry.resolve(INLINE, b"")
    assert asked == []


def test_a_consumer_waits_for_items_as_get_does_for_values(entry: ObjectEntry) -> None:
    """So it lends its CPU, warns when nothing moves, and is told why when its time is up."""
    process: Any = SimpleNamespace(lock=threading.RLock(), after_batch=lambda leftovers, function: None, ended=None)
    stream = ObjectStream(TaskId(bytes(16)), ObjectRef(entry), 0)
    waits: list[tuple[int, list[ObjectEntry]]] = []

    def block(waiter: Waiter, entries: list[ObjectEntry], deadline: float | None) -> bool:
        waits.append((waiter.remaining, entries))
        return False

    consumer = StreamConsumer(process, block, lambda entry: "f() waits for a worker")
    with pytest.raises(GetTimeoutError, match=r"yielded nothing within 3 s: f\(\) waits for a worker"):
        consumer.next_item(stream, 3)
    assert waits == [(1, [entry])]
    assert not stream._waiters, "nobody waits any longer"


def test_who_awaits_has_somebody_read_what_comes_and_the_many_behind_it_do_not_ask_again(entry: ObjectEntry) -> None:
    attended = []
    futures = Futures(
        ObjectEntry.when_ready, lambda entry: entry.value, lambda entry: None, lambda: attended.append(True)
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        awaited = [futures.deliver_async(ObjectRef(entry), loop) for _ in range(3)]
        assert len(attended) == 1
        entry.resolve(INLINE, b"")
        await asyncio.gather(*awaited)
        later = ObjectEntry(ObjectId(bytes(20)), 1)
        one_more = futures.deliver_async(ObjectRef(later), loop)
        assert len(attended) == 2
        later.resolve(INLINE, b"")
        await one_more

    asyncio.run(main())
