"""Results that were lost with their node are made again, and what can't be made again says why."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy
import pytest

import kernel
from kernel.runtime.current import get_runtime
from kernel.testing import Cluster

pytestmark = pytest.mark.usefixtures("nothing_left")

SECONDS = 120.0

HERE = {"resources": {"a": 0.01}, "num_cpus": 0}
LENGTH = 20_000
"""Of an array that is stored, and not sent inside a message."""


def runs(directory: Path, name: str) -> int:
    """Return how often `note(directory, name)` was called."""
    return len([file for file in os.listdir(directory) if file.startswith(f"{name}-")])


def note(directory: Path, name: object) -> None:
    """Write down that something ran, where all nodes can see it."""
    (directory / f"{name}-{os.urandom(8).hex()}").touch()


@kernel.remote(num_cpus=0)
def make(directory, name, *arguments):
    note(directory, name)
    return numpy.full(LENGTH, 1 + sum(int(argument[0]) for argument in arguments))


@kernel.remote(num_cpus=0)
def count(directory, number):
    for index in range(number):
        note(directory, f"item{index}")
        yield numpy.full(LENGTH, index)


@kernel.remote(num_cpus=0)
class Source:
    def make(self):
        return numpy.ones(LENGTH)


@pytest.fixture
def doomed(cluster: Cluster):
    """A node that has the resource "doomed", and one that has it, too, and outlives it: `doomed()` kills the first."""
    first = cluster.add_node(num_cpus=1, resources={"doomed": 10})

    def kill():
        nonlocal first
        second = cluster.add_node(num_cpus=1, resources={"doomed": 10})
        cluster.kill_node(first)
        first = second

    yield kill
    cluster.remove_node(first)


THERE = {"resources": {"doomed": 0.01}, "num_cpus": 0}


def values(refs):
    return [int(array[0]) for array in kernel.get(refs, timeout=SECONDS)]


def test_a_lost_result_is_made_again_when_it_is_asked_for(doomed, tmp_path):
    refs = [make.options(**THERE).remote(tmp_path, name) for name in range(3)]
    kernel.wait(refs, num_returns=3, fetch_local=False)
    doomed()
    assert values(refs[:2]) == [1, 1]
    assert [runs(tmp_path, name) for name in range(3)] == [2, 2, 1]


def test_what_a_lost_result_was_made_of_is_made_again_before_it(doomed, tmp_path):
    """Also what nobody has a reference to any more."""
    first = make.options(**THERE).remote(tmp_path, "first")
    second = make.options(**THERE).remote(tmp_path, "second", first)
    third = make.options(**THERE).remote(tmp_path, "third", first, second)
    kernel.wait([third], fetch_local=False)
    del first, second
    doomed()
    assert values([third]) == [4]
    assert [runs(tmp_path, name) for name in ("first", "second", "third")] == [2, 2, 2]


def test_only_what_was_lost_is_made_again(doomed, tmp_path):
    kept = make.options(**HERE).remote(tmp_path, "kept")
    lost = make.options(**THERE).remote(tmp_path, "lost", kept)
    kernel.wait([lost], fetch_local=False)
    doomed()
    assert values([lost]) == [2]
    assert (runs(tmp_path, "kept"), runs(tmp_path, "lost")) == (1, 2)


def test_a_task_that_waits_for_a_lost_argument_gets_it(doomed, tmp_path):
    lost = make.options(**THERE).remote(tmp_path, "lost")
    kernel.wait([lost], fetch_local=False)
    doomed()
    assert values([make.options(**HERE).remote(tmp_path, "next", lost)]) == [2]


def test_a_borrower_gets_what_was_lost(doomed, tmp_path):
    @kernel.remote(num_cpus=0)
    def read(refs):
        return int(kernel.get(refs[0])[0])

    lost = make.options(**THERE).remote(tmp_path, "lost")
    kernel.wait([lost], fetch_local=False)
    doomed()
    assert kernel.get(read.options(**HERE).remote([lost]), timeout=SECONDS) == 1


def test_a_chain_longer_than_the_stack_is_made_again_and_freed(doomed, tmp_path):
    @kernel.remote(num_cpus=0)
    def add(array):
        return array + 1

    ref = make.options(**THERE).remote(tmp_path, "first")
    for _ in range(600):
        ref = add.options(**THERE).remote(ref)
    kernel.wait([ref], fetch_local=False, timeout=SECONDS)
    doomed()
    assert values([ref]) == [601]


def test_as_often_as_its_task_may_run(doomed, tmp_path):
    ref = make.options(max_retries=1, **THERE).remote(tmp_path, "twice")
    kernel.wait([ref], fetch_local=False)
    doomed()
    kernel.wait([make.options(**THERE).remote(tmp_path, "user", ref)], fetch_local=False)
    assert runs(tmp_path, "twice") == 2
    doomed()
    with pytest.raises(kernel.exceptions.ObjectLostError, match="its max_retries are 0 or used up"):
        kernel.get(ref, timeout=SECONDS)
    assert runs(tmp_path, "twice") == 2


def test_what_an_actor_made_is_lost_and_says_so(doomed, cluster):
    source = Source.options(**THERE).remote()
    ref = source.make.remote()
    kernel.wait([ref], fetch_local=False)
    doomed()
    with pytest.raises(kernel.exceptions.ObjectLostError, match="it was put, or came from an actor"):
        kernel.get(ref, timeout=SECONDS)


# -- generators --------------------------------------------------------------------------------------------------------


def test_lost_items_of_a_generator_are_made_again(doomed, tmp_path):
    refs = list(count.options(num_returns="streaming", **THERE).remote(tmp_path, 5))
    doomed()
    del refs[2]
    assert values(refs[1:3]) == [1, 3]
    assert [runs(tmp_path, f"item{index}") for index in range(4)] == [2] * 4
    assert values(refs) == [0, 1, 3, 4]


def test_lost_items_of_a_generator_that_goes_on_come_with_it(doomed, tmp_path, eventually):
    stream = count.options(num_returns="streaming", stream_ahead=3, **THERE).remote(tmp_path, 8)
    refs = [next(stream) for _ in range(3)]
    kernel.wait(refs, num_returns=3, fetch_local=False)
    doomed()
    assert values(refs) == [0, 1, 2]
    assert values(list(stream)) == [3, 4, 5, 6, 7]


def test_items_of_a_generator_that_was_left_early(doomed, tmp_path):
    stream = count.options(num_returns="streaming", **THERE).remote(tmp_path, 100)
    refs = [next(stream) for _ in range(3)]
    del stream
    kernel.wait(refs, num_returns=3, fetch_local=False)
    doomed()
    assert values(refs) == [0, 1, 2]


def test_a_dynamic_number_of_lost_results(doomed, tmp_path):
    outer = count.options(num_returns="dynamic", **THERE).remote(tmp_path, 4)
    refs = list(kernel.get(outer))
    doomed()
    assert values(refs) == [0, 1, 2, 3]
    assert values(list(kernel.get(outer))) == [0, 1, 2, 3]


@pytest.fixture
def deaf(cluster: Cluster):
    """Until the end the driver hears of no node that is gone: it finds out object by object."""
    told = get_runtime().io.on_place_lost  # type: ignore[attr-defined]
    received, told[:] = list(told), []
    yield
    told[:] = received


@pytest.mark.parametrize("number", [6, "dynamic"])
def test_results_found_lost_one_after_the_other_are_made_again_by_one_run(doomed, deaf, tmp_path, number):
    """There are more of them than the task has retries."""
    made = count.options(num_returns=number, **THERE).remote(tmp_path, 6)
    refs = list(kernel.get(made)) if number == "dynamic" else made
    kernel.wait(refs, num_returns=6, fetch_local=False)
    doomed()
    assert [values([ref]) for ref in refs] == [[index] for index in range(6)]
    assert runs(tmp_path, "item0") == 2


def test_items_asked_for_while_their_generator_runs_again_wait_for_that_run(doomed, tmp_path):
    @kernel.remote(num_cpus=0, num_returns="streaming")
    def hesitant(directory):
        note(directory, "run")
        for index in range(6):
            while runs(directory, "run") > 1 and not runs(directory, f"go{index}"):
                time.sleep(0.01)
            yield numpy.full(LENGTH, index)

    refs = list(hesitant.options(**THERE).remote(tmp_path))
    doomed()
    made = []
    for index, ref in enumerate(refs):
        asked = ref.future()
        note(tmp_path, f"go{index}")
        made.append(int(asked.result(timeout=SECONDS)[0]))
    assert made == list(range(6))
    assert runs(tmp_path, "run") == 2


def test_a_generator_that_yields_less_the_second_time(doomed, tmp_path):
    @kernel.remote(num_cpus=0, num_returns="streaming")
    def fickle(directory):
        note(directory, "run")
        for index in range(3 if runs(directory, "run") == 1 else 1):
            yield numpy.full(LENGTH, index)

    refs = list(fickle.options(**THERE).remote(tmp_path))
    doomed()
    with pytest.raises(kernel.exceptions.ObjectLostError, match=r"fickle\(\).* yielded less when it ran again"):
        kernel.get(refs[2], timeout=SECONDS)
    assert values(refs[:1]) == [0]


def test_a_generator_that_fails_the_second_time(doomed, tmp_path):
    @kernel.remote(num_cpus=0, num_returns="streaming")
    def brittle(directory):
        note(directory, "run")
        for index in range(3):
            if index == 1 and runs(directory, "run") == 2:
                raise KeyError("gone")
            yield numpy.full(LENGTH, index)

    refs = list(brittle.options(**THERE).remote(tmp_path))
    doomed()
    with pytest.raises(KeyError, match="gone"):
        kernel.get(refs[2], timeout=SECONDS)
