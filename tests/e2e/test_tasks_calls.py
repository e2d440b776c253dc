"""Calling remote functions: arguments, options, number of returns, and which functions can be remote."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def add(a, b=10, *rest, scale=1, **more):
    return (a + b + sum(rest) + sum(more.values())) * scale


@kernel.remote
def identity(value):
    return value


@kernel.remote
def process():
    return os.getpid()


def test_a_call_returns_a_reference_at_once_and_runs_in_another_process(tmp_path):
    returned = tmp_path / "returned"

    @kernel.remote
    def slow():
        wait_until(returned.exists, SECONDS, "the call's return")
        return os.getpid()

    ref = slow.remote()
    returned.touch()
    assert isinstance(ref, kernel.ObjectRef)
    assert kernel.get(ref) != os.getpid()


def test_calls_run_side_by_side(tmp_path):
    @kernel.remote
    def meet(path, other):
        path.touch()
        wait_until(other.exists, SECONDS, "the start of the other task beside this one")
        return True

    first, second = tmp_path / "first", tmp_path / "second"
    assert kernel.get([meet.remote(first, second), meet.remote(second, first)]) == [True, True]


def test_positional_keyword_default_and_variable_arguments():
    assert kernel.get(add.remote(1)) == 11
    assert kernel.get(add.remote(1, 2)) == 3
    assert kernel.get(add.remote(1, b=2)) == 3
    assert kernel.get(add.remote(1, 2, 3, 4, scale=2)) == 20
    assert kernel.get(add.remote(a=1, b=2, c=3, d=4)) == 10


def test_references_and_values_are_interchangeable_as_arguments():
    two = kernel.put(2)
    expected = [3] * 6
    calls = [
        add.remote(1, 2),
        add.remote(1, two),
        add.remote(kernel.put(1), two),
        add.remote(1, b=two),
        add.remote(a=kernel.put(1), b=two),
        add.remote(identity.remote(1), identity.remote(2)),
    ]
    assert kernel.get(calls) == expected


def test_references_inside_containers_arrive_as_references():
    @kernel.remote
    def look(items, mapping):
        return [type(x).__name__ for x in [*items, *mapping.values()]], kernel.get(items[0])

    ref = kernel.put("value")
    assert kernel.get(look.remote([ref, 1], {"k": ref})) == (["ObjectRef", "int", "ObjectRef"], "value")


def test_a_task_waits_for_its_arguments_and_sees_plain_values():
    @kernel.remote
    def slow():
        time.sleep(0.2)
        return (1, (2, 3))

    @kernel.remote
    def unpack(pair):
        first, (second, third) = pair
        return first + second + third

    assert kernel.get(unpack.remote(slow.remote())) == 6


def test_a_tree_of_tasks():
    values = [identity.remote(i) for i in range(16)]
    while len(values) > 1:
        values.append(add.remote(values.pop(0), values.pop(0)))
    assert kernel.get(values[0]) == sum(range(16))


def test_long_chains_of_dependencies():
    ref = kernel.put(0)
    for _ in range(300):
        ref = add.remote(ref, 1)
    assert kernel.get(ref) == 300


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", [list, tuple, lambda items: (x for x in items), numpy.array])
def test_several_returns_from_any_sequence(count, kind):
    @kernel.remote(num_returns=count)
    def several():
        return kind(list(range(count)))

    refs = several.remote()
    assert isinstance(refs, list)
    assert len(refs) == count
    assert kernel.get(refs) == list(range(count))


def test_no_returns(tmp_path):
    @kernel.remote(num_returns=0)
    def nothing(path):
        open(path, "w").close()
        return "dropped"

    path = tmp_path / "called"
    assert nothing.remote(path) is None
    wait_until(path.exists, SECONDS, "the call")


@pytest.mark.parametrize(
    ("value", "found", "error"),
    [
        ((1, 2), "2 values", ValueError),
        ([1, 2, 3, 4], "4 values", ValueError),
        (7, "a int", TypeError),
        (None, "a NoneType", TypeError),
        ("abc", "a str", TypeError),
    ],
)
def test_a_wrong_number_of_returns_names_both_numbers(value, found, error):
    @kernel.remote(num_returns=3)
    def wrong():
        return value

    for ref in wrong.remote():
        with pytest.raises(error, match=f"wrong\\(\\) has num_returns=3 .*returned {found}"):
            kernel.get(ref)


def test_a_tuple_is_one_value_unless_asked_otherwise():
    @kernel.remote
    def pair():
        return 1, (2, 3)

    assert kernel.get(pair.remote()) == (1, (2, 3))


def test_options_change_one_call_and_leave_the_function_alone():
    @kernel.remote
    def numbers(n):
        return list(range(n))

    assert kernel.get(numbers.options(num_returns=2).remote(2)) == [0, 1]
    assert kernel.get(numbers.remote(2)) == [0, 1]
    named = numbers.options(name="other name", num_cpus=2, max_retries=0)
    assert kernel.get(named.remote(1)) == [0]
    assert kernel.get(named.options(num_cpus=None, num_returns=None).remote(1)) == [0]


@pytest.mark.parametrize("options", [{"num_cpus": 0}, {"num_cpus": 0.5}, {"memory": 1 << 20}, {"max_retries": -1}])
def test_options_that_change_nothing_visible(options):
    assert kernel.get(identity.options(**options).remote(5)) == 5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_cpu": 1}, "did you mean 'num_cpus'"),
        ({"max_restarts": 1}, "'max_restarts' is an option of an actor, not of a task"),
        ({"num_cpus": -1}, "num_cpus must be a number of CPUs, zero or more, not -1"),
        ({"num_returns": "many"}, 'num_returns must be a count, "dynamic" or "streaming"'),
        ({"resources": {"CPU": 1}}, "must be given as num_cpus=1"),
        ({"num_gpus": 1.5}, "whole number or at most 1"),
    ],
)
def test_wrong_options_are_refused_by_name(options, text):
    with pytest.raises(exceptions.OptionError, match=text):
        ref = kernel.remote(**options)(lambda: None).remote()
        kernel.get(ref)


def test_a_remote_function_is_not_called_directly_but_locally():
    with pytest.raises(TypeError, match=r"use add.remote\(...\), or .local\(...\)"):
        add(1)
    assert add.local(1, 2) == 3


def test_the_decorator_keeps_name_and_documentation():
    @kernel.remote
    def documented():
        """What it does."""

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "What it does."
    assert "documented" in repr(documented)


def test_async_functions_are_for_actors():
    async def coroutine():
        pass

    with pytest.raises(exceptions.UsageError, match=r"coroutine\(\) is an async function, which only actors run"):
        kernel.remote(coroutine)


class Callable_:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        return self.base + x

    def method(self, x):
        return self.base * x


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (math.sqrt, (9,), 3.0),
        (len, ([1, 2],), 2),
        (lambda x: x * 2, (4,), 8),
        (functools.partial(pow, 2), (5,), 32),
        (str.upper, ("a",), "A"),
        (Callable_(10), (5,), 15),
        (Callable_(10).method, (5,), 50),
        (numpy.sum, ([1, 2],), 3),
    ],
    ids=["builtin", "len", "lambda", "partial", "slot", "callable", "bound method", "numpy"],
)
def test_any_callable_can_be_remote(function, arguments, expected):
    assert kernel.get(kernel.remote(function).remote(*arguments)) == expected


def test_closures_carry_values_references_and_other_remote_functions():
    factor = 3
    table = {"offset": kernel.put(100)}

    def helper(x):
        return x * factor

    @kernel.remote
    def inner(x):
        return x + 1

    @kernel.remote
    def outer(x):
        return kernel.get(table["offset"]) + helper(x) + kernel.get(inner.remote(x))

    assert kernel.get(outer.remote(2)) == 100 + 6 + 3


def test_code_that_runs_amid_serializing_a_function_may_call_others():
    """What pickles itself, and every destructor: Python collects garbage wherever something is made."""
    called = []

    class Calls:
        def __reduce__(self):
            called.append(kernel.remote(lambda: 1).remote())
            return int, (41,)

    calls = Calls()
    assert kernel.get(kernel.remote(lambda: calls + 1).remote()) == 42
    assert kernel.get(called) == [1] * len(called) and called


def test_the_closure_is_a_snapshot_of_the_first_call():
    state = [1]

    @kernel.remote
    def read():
        return list(state)

    assert kernel.get(read.remote()) == [1]
    state.append(2)
    assert kernel.get(read.remote()) == [1]


def test_functions_may_use_what_is_defined_after_them():
    assert kernel.get(uses_later.remote(4)) == 17


@kernel.remote
def uses_later(x):
    return defined_later(x) + kernel.get(remote_later.remote())


def defined_later(x):
    return x * x


@kernel.remote
def remote_later():
    return 1


def test_the_newest_definition_counts():
    @kernel.remote
    def versioned():
        return 1

    first = versioned

    @kernel.remote
    def versioned():
        return 2

    assert kernel.get(versioned.remote()) == 2
    assert kernel.get(first.remote()) == 1


def test_recursion():
    @kernel.remote
    def factorial(n):
        return 1 if n <= 1 else n * kernel.get(factorial.remote(n - 1))

    assert kernel.get(factorial.remote(8)) == 40320


def test_calls_from_many_threads():
    def work(n):
        return kernel.get([add.remote(n, i) for i in range(50)])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert results == [[n + i for i in range(50)] for n in range(8)]


def test_calls_from_coroutines():
    async def one(n):
        return await add.remote(n, 1)

    async def main():
        return await asyncio.gather(*(one(i) for i in range(100)))

    assert asyncio.run(main()) == list(range(1, 101))


def test_calls_from_threads_inside_a_task():
    @kernel.remote
    def fan_out(n):
        results = [None] * n

        def work(i):
            results[i] = kernel.get(add.options(num_cpus=0).remote(i, 0))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    assert kernel.get(fan_out.remote(8), timeout=SECONDS) == list(range(8))


def test_large_arguments_by_value_are_whole_and_freed(eventually):
    data = numpy.arange(1 << 18)

    @kernel.remote
    def total(array, more):
        return int(array.sum()) + len(more)

    assert kernel.get(total.remote(data, more="x" * 300_000)) == int(data.sum()) + 300_000
    runtime = kernel.api.session.ensure_session()
    eventually(lambda: not runtime.query("status")["store"]["used"])


def test_many_small_calls():
    refs = [add.remote(i, 0) for i in range(5000)]
    assert kernel.get(refs) == list(range(5000))


def test_workers_are_used_again():
    assert len(set(kernel.get([process.remote() for _ in range(200)]))) <= 4
