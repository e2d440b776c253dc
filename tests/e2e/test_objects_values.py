"""Putting and getting values: what comes back, without copies where promised, and how to wait for it."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import gc
import sys
import threading
import time
import types
import uuid

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


@kernel.remote
def nap(seconds, value=None):
    time.sleep(seconds)
    return value


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    y: list


Pair = collections.namedtuple("Pair", "first second")

VALUES = [
    None,
    True,
    0,
    -(10**40),
    1.5,
    float("inf"),
    1 + 2j,
    "text ☃",
    b"bytes",
    bytearray(b"mutable"),
    (),
    [1, [2, [3]]],
    {"a": {1, 2}, 3: frozenset({4})},
    range(5),
    slice(1, 2),
    Color.RED,
    Point(1, [2]),
    Pair(1, "b"),
    decimal.Decimal("1.10"),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
    uuid.UUID(int=5),
    collections.OrderedDict(a=1),
    collections.Counter("abca"),
    collections.deque([1, 2], maxlen=3),
    ...,
    int,
    ValueError,
    "x" * 500_000,
    b"y" * 500_000,
    [0] * 100_000,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back_equal_and_of_the_same_type(value):
    for back in (kernel.get(kernel.put(value)), kernel.get(identity.remote(value))):
        assert back == value
        assert type(back) is type(value)


def test_lists_of_references_give_lists_of_values_in_order():
    refs = [nap.remote(0.05 * (3 - i), i) for i in range(4)]
    assert kernel.get(refs) == [0, 1, 2, 3]
    assert kernel.get([refs[2], refs[0], refs[2]]) == [2, 0, 2]
    assert kernel.get([]) == []
    assert kernel.get(tuple(refs[:2])) == [0, 1]


def test_ten_thousand_references_in_a_list():
    refs = [kernel.put(i) for i in range(10_000)]
    assert kernel.get(refs) == list(range(10_000))
    inner = kernel.get(identity.remote(refs[:5000]))
    assert inner == refs[:5000]
    assert kernel.get(inner[-1]) == 4999


def test_stored_values_do_not_change_with_the_original():
    value = [1, 2]
    ref = kernel.put(value)
    value.append(3)
    first = kernel.get(ref)
    first.append(4)
    assert kernel.get(ref) == [1, 2]


def test_shared_items_stay_shared_inside_one_value():
    inner = [1]
    back = kernel.get(kernel.put([inner, inner]))
    assert back[0] is back[1]


def test_values_that_contain_themselves():
    value = []
    value.append(value)
    back = kernel.get(kernel.put(value))
    assert back[0] is back


def test_hopelessly_deep_values_are_refused_readably():
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(exceptions.SerializationError, match="too deeply"):
        kernel.put(value)
    while value:
        value = value.pop()


# -- numpy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1000, 200_000], ids=["inline", "stored"])
def test_arrays_come_back_read_only(size):
    array = kernel.get(kernel.put(numpy.arange(size)))
    assert array.sum() == numpy.arange(size).sum()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    copy = array.copy()
    copy[0] = 7


def test_large_arrays_are_read_without_a_copy():
    ref = kernel.put({"weights": [numpy.zeros(1 << 20)], "name": "model"})
    first = kernel.get(ref)["weights"][0]
    second = kernel.get(ref)["weights"][0]
    assert first.ctypes.data == second.ctypes.data
    assert not first.flags.owndata


def test_an_array_outlives_every_reference_to_it():
    ref = kernel.put(numpy.full(1 << 18, 7))
    array = kernel.get(ref)
    part = array[1000:2000]
    del ref, array
    gc.collect()
    others = [kernel.put(numpy.full(1 << 18, i)) for i in range(20)]
    del others
    kernel.get([identity.remote(1) for _ in range(20)])
    assert (part == 7).all()


def test_arrays_of_every_layout():
    for array in (
        numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
        numpy.arange(1 << 18).reshape(512, 512)[::2, ::3],
        numpy.zeros((0, 3)),
        numpy.array(5),
        numpy.array(["a", "bc"]),
        numpy.array([1, None, "x"], dtype=object),
        numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        numpy.arange(10).view(numpy.recarray),
    ):
        back = kernel.get(identity.remote(array))
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert (back == array).all()


def test_large_returns():
    @kernel.remote(num_returns=2)
    def make():
        return numpy.arange(1 << 20), b"x" * (3 << 20)

    array, data = kernel.get(make.remote())
    assert array[-1] == (1 << 20) - 1
    assert len(data) == 3 << 20


def test_a_big_array_passes_through_a_chain_of_tasks():
    @kernel.remote
    def add_one(array):
        return array + 1

    ref = kernel.put(numpy.zeros(1 << 18))
    for _ in range(5):
        ref = add_one.remote(ref)
    assert (kernel.get(ref) == 5).all()


# -- get and wait ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: kernel.get(3), r"get\(\) takes an ObjectRef or a list of them, not a int"),
        (lambda: kernel.get([kernel.put(1), "x"]), "not a list with a str in it"),
        (lambda: kernel.get(kernel.put(1), timeout=-1), "timeout must be zero or more seconds, not -1"),
        (lambda: kernel.wait(kernel.put(1)), r"wait\(\) takes a list of ObjectRefs, not a ObjectRef"),
        (lambda: kernel.wait([kernel.put(1), 4]), "not a list with a int in it"),
        (lambda: kernel.wait([kernel.put(1)], num_returns=2), "num_returns must be between 1 and the 1 references"),
        (lambda: kernel.wait([kernel.put(1)], num_returns=0), "num_returns must be between 1"),
        (lambda: kernel.wait([kernel.put(1)], timeout=-1), "timeout must be zero or more"),
        (lambda: kernel.put(kernel.put(1)), "pass the reference itself"),
    ],
)
def test_misuse_is_refused_in_words(call, text):
    with pytest.raises(exceptions.UsageError, match=text):
        call()


def test_wait_refuses_duplicates():
    ref = kernel.put(1)
    with pytest.raises(exceptions.OptionError, match="takes each reference once"):
        kernel.wait([ref, ref])
    with pytest.raises(ValueError):
        kernel.wait([ref, kernel.get(kernel.put([ref]))[0]])


def test_wait_returns_exactly_as_many_as_asked_for():
    refs = [kernel.put(i) for i in range(5)]
    assert kernel.wait(refs, num_returns=2) == (refs[:2], refs[2:])
    assert kernel.wait(refs, num_returns=5) == (refs, [])


def test_wait_keeps_the_order_in_both_lists():
    slow = [nap.remote(600, i) for i in range(1)]
    quick = [identity.remote(i) for i in range(4)]
    mixed = [quick[3], slow[0], quick[1], quick[0], quick[2]]
    ready, others = kernel.wait(mixed, num_returns=4, timeout=SECONDS)
    assert ready == [quick[3], quick[1], quick[0], quick[2]]
    assert others == slow
    kernel.cancel(slow[0])


def test_wait_with_a_timeout_returns_what_there_is():
    slow = nap.remote(600)
    ready = kernel.put(1)
    begun = time.monotonic()
    assert kernel.wait([slow, ready], num_returns=2, timeout=0.2) == ([ready], [slow])
    assert 0.15 < time.monotonic() - begun < SECONDS
    assert kernel.wait([slow], timeout=0) == ([], [slow])
    assert time.monotonic() - begun < SECONDS
    kernel.cancel(slow)


def test_the_loop_that_works_off_results_as_they_come():
    waiting = [nap.remote(0.02 * i, i) for i in (3, 1, 2)]
    order = []
    while waiting:
        ready, waiting = kernel.wait(waiting)
        order += kernel.get(ready)
        if len(order) == 1:
            waiting.append(identity.remote(99))
    assert sorted(order) == [1, 2, 3, 99]


def test_wait_counts_failures_as_ready():
    @kernel.remote
    def failing():
        raise ValueError

    ref = failing.remote()
    assert kernel.wait([ref], timeout=SECONDS) == ([ref], [])


@pytest.mark.parametrize("fetch", [True, False])
def test_wait_for_large_values(fetch):
    ref = identity.remote(numpy.zeros(1 << 18))
    assert kernel.wait([ref], fetch_local=fetch, timeout=SECONDS) == ([ref], [])
    assert kernel.get(ref).size == 1 << 18


def test_get_with_no_time_takes_what_is_there():
    ref = identity.remote(4)
    assert kernel.get(ref) == 4
    assert kernel.get(ref, timeout=0) == 4
    slow = nap.remote(600)
    with pytest.raises(exceptions.GetTimeoutError):
        kernel.get(slow, timeout=0)
    kernel.cancel(slow)


def test_many_threads_wait_for_the_same_and_for_different_values():
    shared = nap.remote(0.3, "shared")
    results = {}

    def work(i):
        own = nap.options(num_cpus=0.1).remote(0.05, i)
        results[i] = (kernel.get(own), kernel.get(shared))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert results == {i: (i, "shared") for i in range(10)}


# -- futures and coroutines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["small", "x" * 500_000], ids=["inline", "stored"])
def test_futures(value):
    assert identity.remote(value).future().result(timeout=SECONDS) == value
    assert kernel.put(value).future().result(timeout=SECONDS) == value


def test_futures_carry_errors():
    @kernel.remote
    def failing():
        raise KeyError("k")

    assert isinstance(failing.remote().future().exception(timeout=SECONDS), KeyError)


@pytest.mark.parametrize("value", ["small", "x" * 500_000], ids=["inline", "stored"])
def test_references_can_be_awaited(value):
    async def main():
        ref = kernel.put(value)
        assert await ref == value
        assert await asyncio.gather(identity.remote(value), nap.remote(0.1, value), ref) == [value] * 3
        assert await asyncio.wait_for(identity.remote(1), SECONDS) == 1
        done, pending = await asyncio.wait([identity.remote(1).as_future(), nap.remote(0.05, 2).as_future()])
        assert {task.result() for task in done} == {1, 2} and not pending
        slow = nap.remote(600)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow, 0.05)
        kernel.cancel(slow)
        return True

    assert asyncio.run(main())


def test_awaiting_raises_what_the_task_raised():
    @kernel.remote
    def failing():
        raise KeyError("k")

    async def main():
        with pytest.raises(KeyError):
            await failing.remote()

    asyncio.run(main())


def test_blocking_in_a_coroutine_warns():
    async def main():
        with pytest.warns(RuntimeWarning, match=r"kernel.get\(\) in a coroutine blocks its event loop; use await ref"):
            kernel.get(kernel.put(1))
        with pytest.warns(RuntimeWarning, match=r"use asyncio.wait"):
            kernel.wait([kernel.put(1)])

    asyncio.run(main())


def test_getting_while_another_thread_imports_asyncio_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncio", types.ModuleType("asyncio"))  # what is there of it so far
    assert kernel.get(kernel.put(1)) == 1


def test_a_weak_put_can_be_read_while_it_is_there():
    assert kernel.get(kernel.put(numpy.zeros(1 << 18), weak=True)).size == 1 << 18


@pytest.mark.usefixtures("patient_explanations")
def test_a_slow_get_says_what_it_waits_for(tmp_path, monkeypatch):
    """The warning after some seconds, with the patience made short."""

    @kernel.remote
    def slow():
        (tmp_path / "begun").touch()
        wait_until((tmp_path / "said").exists, SECONDS, "the warning")

    def warn(pending):
        said.append(inspection.explain_entry(pending[0]))
        (tmp_path / "said").touch()

    said = []
    inspection = kernel.api.session.ensure_session().inspection
    monkeypatch.setattr("kernel_processes.runtime.session_objects.PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(inspection, "warn_waiting", warn)
    ref = slow.remote()
    wait_until((tmp_path / "begun").exists, SECONDS, "the begin")
    kernel.get(ref)
    assert "slow() is running on worker" in said[0]
