"""Actors on several nodes: every kind of them, references in their state, and their ends."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import numpy
import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("cluster", "nothing_left")

SECONDS = 120.0

A, B, C = ({"resources": {name: 0.01}, "num_cpus": 0} for name in "abc")


@kernel.remote(num_cpus=0)
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount=1):
        self.value += amount
        return self.value

    def place(self):
        return kernel.get_runtime_context().get_node_id()

    def pid(self):
        return os.getpid()

    def fail(self):
        raise ValueError(f"at {self.value}")


@kernel.remote(num_cpus=0)
class Keeper:
    """Keeps references in its state."""

    def __init__(self, refs=()):
        self.refs = list(refs)

    def keep(self, refs):
        self.refs += refs
        return len(self.refs)

    def make(self, size):
        self.refs.append(kernel.put(numpy.full(size, len(self.refs))))
        return list(self.refs)

    def read(self):
        return [int(kernel.get(ref).sum()) for ref in self.refs]

    def give(self):
        return self.refs

    def drop(self):
        self.refs.clear()


@kernel.remote(num_cpus=0)
def total(array):
    return int(array.sum())


@kernel.remote(num_cpus=0)
def use(counter, times):
    return [kernel.get(counter.add.remote()) for _ in range(times)]


def test_calls_of_one_caller_run_in_order():
    counter = Counter.options(**B).remote(10)
    assert kernel.get([counter.add.remote() for _ in range(200)]) == list(range(11, 211))


def test_each_lives_where_its_resources_are(cluster):
    actors = [Counter.options(**one).remote() for one in (A, B, C)]
    assert kernel.get([actor.place.remote() for actor in actors]) == [node.id for node in cluster.nodes]


def test_a_handle_travels_to_other_nodes():
    counter = Counter.options(**B).remote()
    rows = kernel.get([use.options(**one).remote(counter, 20) for one in (A, B, C)])
    assert all(row == sorted(row) for row in rows)
    assert kernel.get(counter.add.remote(0)) == 60


def test_a_named_one_is_found_from_everywhere():
    named = Counter.options(name="cluster-counter", **B).remote()
    namespace = kernel.get_runtime_context().namespace

    @kernel.remote(num_cpus=0)
    def call():
        return kernel.get(kernel.get_actor("cluster-counter", namespace=namespace).add.remote())

    assert sorted(kernel.get([call.options(**one).remote() for one in (A, B, C)])) == [1, 2, 3]
    with pytest.raises(exceptions.NameTakenError):
        kernel.get(Counter.options(name="cluster-counter", **C).remote().add.remote())
    kernel.kill(named)


def test_an_actor_made_by_a_task_elsewhere_is_used_here():
    @kernel.remote(num_cpus=0)
    def make():
        counter = Counter.options(**C).remote(5)
        kernel.get(counter.add.remote())
        return [counter]

    [counter] = kernel.get(make.options(**B).remote())
    assert kernel.get(counter.add.remote()) == 7


def test_an_asynchronous_one():
    @kernel.remote(**B)
    class Meeting:
        def __init__(self):
            self.there = asyncio.Event()

        async def wait(self):
            await self.there.wait()
            return "met"

        async def come(self):
            self.there.set()

    meeting = Meeting.remote()
    waiting = [meeting.wait.remote() for _ in range(10)]
    assert kernel.wait(waiting, timeout=0.2)[0] == []
    meeting.come.remote()
    assert kernel.get(waiting, timeout=SECONDS) == ["met"] * 10


def test_one_with_threads():
    @kernel.remote(max_concurrency=4, **C)
    class Barrier:
        def __init__(self):
            self.barrier = threading.Barrier(4)

        def meet(self):
            self.barrier.wait(SECONDS)
            return True

    barrier = Barrier.remote()
    assert kernel.get([barrier.meet.remote() for _ in range(4)], timeout=SECONDS) == [True] * 4


def test_a_method_that_is_a_generator():
    @kernel.remote(**B)
    class Source:
        @kernel.method(num_returns="streaming")
        def items(self, count, size):
            for i in range(count):
                yield numpy.full(size, i)

    source = Source.remote()
    assert [int(kernel.get(ref)[0]) for ref in source.items.remote(5, 100_000)] == list(range(5))


def test_an_exception_leaves_the_actor_alive():
    counter = Counter.options(**B).remote(3)
    with pytest.raises(ValueError, match="at 3"):
        kernel.get(counter.fail.remote())
    assert kernel.get(counter.add.remote()) == 4


def test_a_constructor_that_raises():
    @kernel.remote(**B)
    class Broken:
        def __init__(self):
            raise KeyError("no such part")

        def call(self):
            return 1

    with pytest.raises(KeyError, match="no such part"):
        kernel.get(Broken.remote().call.remote())


def test_a_large_argument_of_the_constructor():
    keeper = Keeper.options(**B).remote([kernel.put(numpy.ones(300_000))])
    assert kernel.get(keeper.read.remote()) == [300_000]


@pytest.mark.parametrize("size", [10, 200_000], ids=["inline", "stored"])
def test_references_in_the_state_keep_objects_alive(size):
    keeper = Keeper.options(**B).remote()
    assert kernel.get(keeper.keep.remote([kernel.put(numpy.full(size, 2))])) == 1
    assert kernel.get(keeper.read.remote()) == [2 * size]
    other = Keeper.options(**C).remote()
    kernel.get(other.keep.remote(kernel.get(keeper.give.remote())))
    kernel.get(keeper.drop.remote())
    assert kernel.get(other.read.remote()) == [2 * size]
    [ref] = kernel.get(other.give.remote())
    kernel.get(other.drop.remote())
    assert kernel.get(ref).sum() == 2 * size


def test_what_an_actor_has_put_is_read_on_all_nodes():
    keeper = Keeper.options(**B).remote()
    kernel.get(keeper.make.remote(200_000))
    first, second = kernel.get(keeper.make.remote(200_000))
    assert kernel.get([total.options(**one).remote(second) for one in (A, B, C)]) == [200_000] * 3
    assert kernel.get(first).sum() == 0


def test_what_a_dead_actor_has_put_is_lost_and_the_error_says_so():
    keeper = Keeper.options(**B).remote()
    [ref] = kernel.get(keeper.make.remote(200_000))
    kernel.kill(keeper)
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(keeper.read.remote())
    with pytest.raises((exceptions.OwnerDiedError, exceptions.ObjectLostError), match="owner|owned"):
        kernel.get(total.options(**C).remote(ref), timeout=SECONDS)
    with pytest.raises((exceptions.OwnerDiedError, exceptions.ObjectLostError), match="owner|owned"):
        kernel.get(ref, timeout=SECONDS)


def test_kill_ends_it_wherever_the_caller_is():
    counter = Counter.options(**B).remote()
    kernel.get(counter.add.remote())

    @kernel.remote(**C)
    def end(actor):
        kernel.kill(actor)

    kernel.get(end.remote(counter))
    with pytest.raises(exceptions.ActorDiedError, match="killed by kernel.kill"):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_a_call_is_cancelled():
    @kernel.remote(**B)
    class Sleeper:
        async def sleep(self, seconds):
            await asyncio.sleep(seconds)

        def add(self):
            return 1

    sleeper = Sleeper.remote()
    ref = sleeper.sleep.remote(600)
    assert kernel.wait([ref], timeout=0.3)[0] == []
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(sleeper.add.remote(), timeout=SECONDS) == 1


def test_it_ends_with_its_last_handle(eventually):
    counter = Counter.options(**B).remote()
    pid = kernel.get(counter.pid.remote())
    del counter
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def test_an_actor_calls_one_on_another_node_and_is_called_back():
    @kernel.remote(num_cpus=0, max_concurrency=2)
    class Player:
        def __init__(self):
            self.other = None

        def meet(self, other):
            self.other = other

        def play(self, rounds):
            return 0 if not rounds else 1 + kernel.get(self.other.play.remote(rounds - 1))

        def part(self):
            self.other = None

    @kernel.remote(num_cpus=0)
    class Wall:
        def play(self, rounds):
            time.sleep(0.001)
            return rounds

    one, wall = Player.options(**B).remote(), Wall.options(**C).remote()
    kernel.get(one.meet.remote(wall))
    assert kernel.get(one.play.remote(5)) == 5
    kernel.get(one.part.remote())


@kernel.remote(num_cpus=0)
class AsyncKeeper:
    """Keeps references in its state, and is asynchronous."""

    async def keep(self, refs):
        self.refs = list(refs)
        self.me = self  # a cycle that only the garbage collector finds

    async def make(self, size):
        return [kernel.put(numpy.ones(size))]


@pytest.mark.parametrize("kind", [Keeper, AsyncKeeper], ids=["plain", "async"])
@pytest.mark.parametrize("size", [10, 200_000], ids=["inline", "stored"])
def test_actors_that_hold_objects_of_each_other_end_with_their_last_handles(kind, size):
    one, other = kind.options(**B).remote(), kind.options(**C).remote()
    for maker, keeper in ((one, other), (other, one)):
        kernel.get(keeper.keep.remote(kernel.get(maker.make.remote(size))))
