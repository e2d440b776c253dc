"""Tasks on several nodes: where they run, what they are given and give back, how they fail and are cancelled."""

from __future__ import annotations

import os
import time
import traceback

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("cluster", "nothing_left")

SECONDS = 120.0

A, B, C = ({"resources": {name: 0.01}, "num_cpus": 0} for name in "abc")
"""Options of a task for each node."""


def node():
    return kernel.get_runtime_context().get_node_id()


@kernel.remote
def where():
    return node()


@kernel.remote
def add(*values):
    return sum(values)


@kernel.remote
def fill(value, size):
    return numpy.full(size, value)


@kernel.remote
def total(array):
    return int(array.sum())


@kernel.remote
def sleep(seconds):
    time.sleep(seconds)


def test_tasks_run_where_their_resources_are(cluster):
    here, b, c = (node.id for node in cluster.nodes)
    assert kernel.get([where.options(**one).remote() for one in (A, B, C, B)]) == [here, b, c, b]


def test_more_tasks_than_one_node_has_room_for_run_on_all(cluster, tmp_path):
    @kernel.remote
    def meet(number):
        (tmp_path / str(number)).touch()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 6, SECONDS, "the meeting of all six")
        return node()

    assert len(set(kernel.get([meet.remote(number) for number in range(6)]))) == 3


def test_many_small_tasks(cluster):
    refs = [add.options(**(A, B, C)[i % 3]).remote(i, 1) for i in range(1000)]
    assert kernel.get(refs) == [i + 1 for i in range(1000)]


def test_a_chain_across_nodes():
    ref = 0
    for i in range(30):
        ref = add.options(**(A, B, C)[i % 3]).remote(ref, 1)
    assert kernel.get(ref) == 30


@pytest.mark.parametrize("size", [10, 300_000], ids=["inline", "stored"])
def test_a_result_is_the_argument_of_a_task_elsewhere(size):
    array = fill.options(**B).remote(3, size)
    assert kernel.get([total.options(**one).remote(array) for one in (A, B, C)]) == [3 * size] * 3
    assert kernel.get(array).sum() == 3 * size


@pytest.mark.parametrize("size", [10, 300_000], ids=["inline", "stored"])
def test_values_in_both_directions(size):
    @kernel.remote(**C)
    def double(array, *, other):
        return array * 2 + other

    given = numpy.arange(size)
    assert numpy.array_equal(kernel.get(double.remote(given, other=given)), given * 3)


def test_what_was_put_here_is_read_everywhere():
    ref = kernel.put(numpy.ones(1_000_000))
    assert kernel.get([total.options(**one).remote(ref) for one in (A, B, C) * 3]) == [1_000_000] * 9


def test_several_results_on_another_node():
    @kernel.remote(num_returns=3, **B)
    def three():
        return 1, numpy.zeros(200_000), "c"

    one, two, c = three.remote()
    assert kernel.get(total.options(**C).remote(two)) == 0
    assert kernel.get([one, c]) == [1, "c"]


def test_tasks_inside_tasks_on_other_nodes():
    @kernel.remote(**B)
    def outer(values):
        @kernel.remote(**C)
        def inner(value):
            return value * 2, node()

        return [*kernel.get([inner.remote(value) for value in values]), node()]

    *inner, outer_node = kernel.get(outer.remote([1, 2]))
    assert [value for value, _ in inner] == [2, 4]
    assert len({outer_node, *(place for _, place in inner)}) == 2


def test_a_blocked_parent_lends_its_cpu_to_a_child_on_its_node():
    @kernel.remote(num_cpus=2, resources={"b": 1})
    def parent():
        return kernel.get(add.options(num_cpus=2, resources={"b": 1}).remote(1, 2))

    assert kernel.get(parent.remote(), timeout=SECONDS) == 3


def test_a_generator_on_another_node():
    @kernel.remote(**B)
    def count(limit):
        for i in range(limit):
            yield numpy.full(100_000, i) if i % 2 else i

    values = [kernel.get(ref) for ref in count.remote(8)]
    assert [int(numpy.max(value)) for value in values] == list(range(8))


def test_a_generator_that_is_left_early_stops():
    @kernel.remote(**B)
    def endless():
        i = 0
        while True:
            yield i
            i += 1
            time.sleep(0.001)

    stream = endless.remote()
    assert [kernel.get(next(stream)) for _ in range(3)] == [0, 1, 2]
    del stream
    assert kernel.get(where.options(num_cpus=2, resources={"b": 1}).remote(), timeout=SECONDS)


def test_a_dynamic_number_of_results():
    @kernel.remote(num_returns="dynamic", **C)
    def parts(count):
        for i in range(count):
            yield numpy.full(100_000, i)

    refs = kernel.get(parts.remote(4))
    assert kernel.get([total.options(**B).remote(ref) for ref in refs]) == [0, 100_000, 200_000, 300_000]


class OwnError(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


def test_an_exception_comes_with_its_type_and_traceback():
    @kernel.remote(**B)
    def fail():
        raise OwnError(7)

    with pytest.raises(OwnError) as caught:
        kernel.get(fail.remote())
    assert caught.value.code == 7
    assert "raise OwnError(7)" in "".join(traceback.format_exception(caught.value))


def test_the_exception_of_an_argument_reaches_every_node():
    @kernel.remote(**B)
    def fail():
        raise OwnError(8)

    @kernel.remote(**C)
    def wants(value):
        return value

    with pytest.raises(OwnError):
        kernel.get(wants.remote(fail.remote()))


def test_exceptions_are_retried_elsewhere_too(tmp_path):
    @kernel.remote(max_retries=3, retry_exceptions=[OwnError], **B)
    def flaky():
        if len(os.listdir(tmp_path)) < 2:
            (tmp_path / str(time.monotonic_ns())).touch()
            raise OwnError(1)
        return "done"

    assert kernel.get(flaky.remote()) == "done"


def test_cancel_reaches_another_node():
    ref = sleep.options(**B).remote(600)
    assert kernel.wait([ref], timeout=0.3) == ([], [ref])
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)


def test_cancel_by_force_ends_the_worker_there():
    @kernel.remote(max_retries=0, **C)
    def stubborn():
        while True:
            try:
                time.sleep(30)
            except BaseException:
                continue

    ref = stubborn.remote()
    kernel.wait([ref], timeout=0.5)
    kernel.cancel(ref, force=True)
    with pytest.raises((exceptions.TaskCancelledError, exceptions.WorkerDiedError)):
        kernel.get(ref, timeout=SECONDS)


def test_wait_returns_what_is_ready_wherever_it_is():
    quick, slow = add.options(**B).remote(1, 2), sleep.options(**C).remote(600)
    assert kernel.wait([slow, quick], timeout=SECONDS) == ([quick], [slow])
    kernel.cancel(slow)


@pytest.mark.usefixtures("patient_explanations")
def test_get_runs_out_of_time_and_says_where_the_task_is(cluster, tmp_path):
    @kernel.remote(**B)
    def sleep():
        (tmp_path / "begun").touch()
        time.sleep(600)

    ref = sleep.remote()
    wait_until((tmp_path / "begun").exists, SECONDS, "the begin of the task")
    with pytest.raises(exceptions.GetTimeoutError, match=rf"sleep\(\) is running.*node {cluster.nodes[1].id[:8]}"):
        kernel.get(ref, timeout=0.2)
    kernel.cancel(ref)


@pytest.mark.usefixtures("patient_explanations")
def test_explain_says_what_a_task_waits_for():
    ref = where.options(resources={"b": 1000}).remote()
    kernel.wait([ref], timeout=0.1)
    assert "b" in kernel.explain(ref) and "1000" in kernel.explain(ref)
    kernel.cancel(ref)
