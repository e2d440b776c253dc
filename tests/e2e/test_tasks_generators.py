"""Generator tasks: streams of references, with errors, limits and early ends; and the dynamic kind."""

from __future__ import annotations

import asyncio
import itertools
import os
import time

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def count(n):
    yield from range(n)


@kernel.remote
def note(path, n, stop_at=None):
    """Yield numbers, leaving a byte in a file for each, and an F at the end."""
    try:
        for i in range(n):
            with open(path, "a") as file:
                file.write("x")
            yield i
    finally:
        with open(path, "a") as file:
            file.write("F")


@kernel.remote
def takes(value):
    return value


@kernel.remote
def plain():
    return 1


def read(path):
    return path.read_text() if path.exists() else ""


def test_a_generator_function_streams_references():
    stream = count.remote(5)
    assert isinstance(stream, kernel.ObjectRefGenerator)
    refs = list(stream)
    assert [type(ref) for ref in refs] == [kernel.ObjectRef] * 5
    assert kernel.get(refs) == [0, 1, 2, 3, 4]
    assert stream.is_finished()
    assert kernel.get(stream.completed()) is None


def test_items_can_be_read_while_the_generator_runs(tmp_path):
    read_early = tmp_path / "read early"

    @kernel.remote
    def slow():
        yield "early"
        wait_until(read_early.exists, SECONDS, "the reading of the first item")
        yield "late"

    stream = slow.remote()
    assert kernel.get(next(stream)) == "early"
    read_early.touch()
    assert kernel.get(next(stream)) == "late"


def test_an_empty_generator():
    assert list(count.remote(0)) == []


@pytest.mark.parametrize("returns", ["streaming", "dynamic"])
def test_a_plain_function_can_not_stream(returns):
    @kernel.remote(num_returns=returns)
    def listing():
        return [1, 2, 3]

    with pytest.raises(
        ValueError, match=rf"num_returns='{returns}' is for generators, which listing\(\) is not: let it"
    ):
        listing.remote()


def test_an_error_is_raised_by_the_reference_after_the_last_good_one():
    @kernel.remote
    def failing():
        yield 1
        yield 2
        raise KeyError("in mid-stream")

    refs = list(failing.remote())
    assert kernel.get(refs[:2]) == [1, 2]
    assert len(refs) == 3
    with pytest.raises(KeyError, match="in mid-stream") as caught:
        kernel.get(refs[2])
    assert isinstance(caught.value, exceptions.TaskError)


def test_an_unserializable_item_ends_the_stream_with_its_path():
    @kernel.remote
    def failing():
        yield 1
        yield {"key": (i for i in range(3))}

    refs = list(failing.remote())
    assert kernel.get(refs[0]) == 1
    with pytest.raises(TypeError, match=r"return value of failing\(\): value\[\"key\"\] is a generator"):
        kernel.get(refs[1])


def test_large_items_are_stored_and_freed(eventually):
    @kernel.remote
    def arrays():
        for i in range(5):
            yield numpy.full(100_000, i)

    total = 0
    for ref in arrays.remote():
        total += int(kernel.get(ref).sum())
    assert total == 100_000 * 10
    del ref
    runtime = kernel.api.session.ensure_session()
    eventually(lambda: runtime.query("status")["store"]["used"] == 0)


def test_references_can_be_yielded():
    @kernel.remote
    def nested():
        for i in range(3):
            yield [kernel.put(i)]

    assert [kernel.get(kernel.get(ref)[0]) for ref in nested.remote()] == [0, 1, 2]


def test_items_are_arguments_like_any_reference():
    @kernel.remote
    def double(x):
        return 2 * x

    assert kernel.get([double.remote(ref) for ref in count.remote(4)]) == [0, 2, 4, 6]


def test_async_iteration():
    async def main():
        found = []
        async for ref in count.remote(20):
            found.append(await ref)
        return found

    assert asyncio.run(main()) == list(range(20))


@pytest.mark.usefixtures("patient_explanations")
def test_waiting_for_the_next_item_with_a_timeout(tmp_path):
    waited = tmp_path / "waited"

    @kernel.remote
    def stuck():
        yield 1
        wait_until(waited.exists, SECONDS, "the end of the wait")

    stream = stuck.remote()
    next(stream)
    with pytest.raises(exceptions.GetTimeoutError, match=r"yielded nothing within 0.1 s: stuck\(\)"):
        stream.next(timeout=0.1)
    waited.touch()
    stream.close()


def test_a_task_that_waits_for_the_next_item_lends_its_cpu(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote
    def total():
        return sum(kernel.get(ref) for ref in count.remote(3))

    assert kernel.get(total.remote(), timeout=SECONDS) == 3


def test_streams_may_be_bounded(tmp_path, eventually):
    stream = note.options(stream_ahead=3).remote(tmp_path / "log", 100)
    eventually(lambda: read(tmp_path / "log") == "xxx")
    assert kernel.get(next(stream)) == 0
    eventually(lambda: read(tmp_path / "log") == "xxxx")
    assert kernel.get(list(stream)) == list(range(1, 100))


def test_closing_a_stream_closes_the_generator(tmp_path, eventually):
    stream = note.remote(tmp_path / "log", 10**7)
    assert kernel.get(next(stream)) == 0
    stream.close()
    assert list(stream) == []
    eventually(lambda: read(tmp_path / "log").endswith("F"))


def test_a_dropped_generator_stops_its_producer(tmp_path, eventually):
    stream = note.remote(tmp_path / "log", 10**7)
    del stream
    eventually(lambda: read(tmp_path / "log").endswith("F"))


def test_a_dropped_generator_stops_a_producer_that_waits_for_it(tmp_path, eventually):
    stream = note.options(stream_ahead=1).remote(tmp_path / "log", 10**7)
    eventually(lambda: read(tmp_path / "log") == "x")
    del stream
    eventually(lambda: read(tmp_path / "log") == "xF")


def test_a_generator_runs_to_its_end_when_somebody_waits_for_that(tmp_path):
    assert kernel.get(note.remote(tmp_path / "log", 50).completed()) is None
    assert read(tmp_path / "log") == "x" * 50 + "F"


def test_a_bounded_stream_survives_the_death_of_its_worker(tmp_path):
    @kernel.remote(stream_ahead=2)
    def dying(path):
        for i in range(10):
            if i == 6 and not os.path.exists(path):
                open(path, "w").close()
                os._exit(1)
            yield i
            time.sleep(0.01)

    assert [kernel.get(ref) for ref in dying.remote(tmp_path / "died")] == list(range(10))


def test_a_stream_whose_worker_dies_for_good_ends_with_the_story(tmp_path):
    read_first = tmp_path / "read first"

    @kernel.remote(max_retries=0)
    def dying():
        yield 1
        wait_until(read_first.exists, SECONDS, "the reading of the first item")
        os._exit(41)

    stream = dying.remote()
    assert kernel.get(next(stream)) == 1
    read_first.touch()
    (died,) = stream
    with pytest.raises(exceptions.WorkerDiedError, match="exit code 41"):
        kernel.get(died)


def test_many_streams_at_once():
    streams = [count.remote(100) for _ in range(10)]
    for items in itertools.zip_longest(*streams):
        assert len(set(kernel.get(list(items)))) == 1


def test_dynamic_returns_are_one_reference_to_many():
    @kernel.remote(num_returns="dynamic")
    def split(n):
        for i in range(n):
            yield numpy.full(1000, i)

    ref = split.remote(4)
    assert isinstance(ref, kernel.ObjectRef)
    refs = kernel.get(ref)
    assert len(refs) == 4
    assert [int(kernel.get(r)[0]) for r in refs] == [0, 1, 2, 3]
    assert kernel.get(refs[2])[0] == 2


def test_dynamic_returns_can_be_passed_on():
    @kernel.remote(num_returns="dynamic")
    def split():
        yield 1
        yield 2

    @kernel.remote
    def total(refs):
        return sum(kernel.get(list(refs)))

    assert kernel.get(total.remote(split.remote())) == 3


def test_an_error_in_a_dynamic_generator_is_raised_by_its_reference():
    @kernel.remote(num_returns="dynamic")
    def failing():
        yield 1
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        kernel.get(failing.remote())


def test_a_generator_stays_in_its_process():
    with pytest.raises(TypeError, match="Send the references that it yields"):
        takes.remote(count.remote(3))


def test_cancelling_a_generator(tmp_path, eventually):
    stream = note.options(stream_ahead=1).remote(tmp_path / "log", 10**6)
    next(stream)
    kernel.cancel(stream.completed())
    eventually(lambda: read(tmp_path / "log").endswith("F"))
    with pytest.raises(exceptions.TaskCancelledError, match=r"note\(\)"):
        for ref in stream:
            kernel.get(ref)


def test_a_stream_is_waited_for_until_it_has_an_item(tmp_path):
    go = tmp_path / "go"

    @kernel.remote
    def late():
        while not go.exists():
            time.sleep(0.01)
        yield "item"

    stream, ready = late.remote(), kernel.put(1)
    for _ in range(3):
        assert kernel.wait([stream, ready], num_returns=2, timeout=0.05) == ([ready], [stream])
    assert len(stream._stream._waiters) == 1, "waiting again leaves nothing behind"
    go.touch()
    assert kernel.wait([stream, ready], num_returns=2, timeout=120) == ([stream, ready], [])
    assert kernel.get(next(stream)) == "item"
