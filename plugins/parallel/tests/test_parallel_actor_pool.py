"""ActorPool: order, timeouts, actors that die, calls that raise, and what decides as a state machine."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from kernel_parallel import ActorPool, Queue
from kernel_parallel.actor_pool_state import ActorPoolState

import kernel
from kernel.exceptions import ActorDiedError, UsageError, WorkerDiedError

pytestmark = pytest.mark.usefixtures("session")


@kernel.remote
class Worker:
    """Does what the tests want."""

    def double(self, x: int) -> int:
        return 2 * x

    def fail(self, x: int) -> int:
        raise LookupError(f"no {x}")

    def die(self, x: int) -> None:
        os._exit(7)

    def after(self, gate: Queue, x: int) -> int:
        gate.get()
        return x

    def pid(self, x: int) -> int:
        return os.getpid()


def double(actor: Any, x: int) -> Any:
    return actor.double.remote(x)


@pytest.fixture(scope="module")
def pool(session: None) -> ActorPool:
    return ActorPool([Worker.remote(), Worker.remote()])


def test_map_keeps_the_order_and_map_unordered_does_not(pool: ActorPool) -> None:
    assert list(pool.map(double, [1, 2, 3, 4])) == [2, 4, 6, 8]
    assert sorted(pool.map_unordered(double, range(50))) == [2 * x for x in range(50)]
    gate = Queue()
    results = pool.map_unordered(
        lambda actor, x: actor.after.remote(gate, x) if x == 0 else actor.double.remote(x), range(5)
    )
    assert sorted(next(results) for _ in range(4)) == [2, 4, 6, 8], "one that waits holds up none but its actor"
    gate.put(None)
    assert list(results) == [0]
    gate.shutdown()


def test_results_are_taken_one_by_one_in_either_order(pool: ActorPool) -> None:
    gate = Queue()
    for x in range(2):
        pool.submit(lambda actor, x: actor.after.remote(gate, x), 2 * x)
    for x in range(2, 5):
        pool.submit(double, x)
    assert not pool.has_free() and pool.has_next()
    gate.put_nowait_batch([None, None])
    assert pool.get_next() == 0
    rest = [pool.get_next_unordered(), pool.get_next(), pool.get_next_unordered(), pool.get_next()]
    assert sorted(rest) == [2, 4, 6, 8] and not pool.has_next() and pool.has_free()
    gate.shutdown()
    for take in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(StopIteration, match="No more results to get"):
            take()


def test_a_map_and_single_submissions_do_not_mix_up(pool: ActorPool) -> None:
    pool.submit(double, 10)
    mapped = pool.map(double, [1, 2, 3])
    assert pool.get_next() == 20 and not pool.has_next()
    assert list(mapped) == [2, 4, 6]


def test_a_timeout_leaves_the_result_unless_it_is_given_up(pool: ActorPool) -> None:
    gate = Queue()
    pool.submit(lambda actor, x: actor.after.remote(gate, x), 1)
    pool.submit(double, 2)
    with pytest.raises(TimeoutError, match=r"no result of submission \d+ after 0\.05 s"):
        pool.get_next(timeout=0.05)
    assert pool.get_next_unordered(timeout=120) == 4
    with pytest.raises(TimeoutError, match="none of 1 results"):
        pool.get_next_unordered(timeout=0.05)
    gate.put(None)
    assert pool.get_next(timeout=120) == 1
    pool.submit(lambda actor, x: actor.after.remote(gate, x), 1)
    with pytest.raises(TimeoutError, match="given up"):
        pool.get_next(timeout=0.05, ignore_if_timedout=True)
    assert not pool.has_next() and pool.has_free()
    gate.put(None)
    assert list(pool.map(double, [1, 2, 3])) == [2, 4, 6]
    gate.shutdown()


def test_a_call_that_raises_frees_its_actor(pool: ActorPool) -> None:
    results = pool.map(lambda actor, x: actor.fail.remote(x) if x == 1 else actor.double.remote(x), range(4))
    assert next(results) == 0
    with pytest.raises(LookupError, match="no 1"):
        next(results)
    for x in (5, 6, 7):
        pool.submit(lambda actor, x: actor.fail.remote(x), x)
    for x in (5, 6, 7):
        with pytest.raises(LookupError, match=f"no {x}"):
            pool.get_next()
    assert pool.has_free() and list(pool.map(double, [4])) == [8]


def test_a_function_that_is_wrong_says_so_where_it_is_given(pool: ActorPool) -> None:
    with pytest.raises(UsageError, match="must return the reference of a call"):
        pool.submit(lambda actor, x: x, 1)
    with pytest.raises(ZeroDivisionError):
        pool.map(lambda actor, x: 1 / 0, [1])
    assert pool.has_free() and not pool.has_next()


def test_a_dead_actor_leaves_the_pool_and_the_others_go_on() -> None:
    first, second = Worker.remote(), Worker.remote()
    pool = ActorPool([first, second])
    results = pool.map(lambda actor, x: actor.die.remote(x) if x == 0 else actor.pid.remote(x), range(6))
    with pytest.raises(ActorDiedError):
        next(results)
    pool.submit(double, 5)
    assert pool.get_next(timeout=120) == 10
    assert pool.pop_idle() == second and pool.pop_idle() is None
    pool.push(second)
    pool.submit(lambda actor, x: actor.die.remote(x), 0)
    pool.submit(double, 1)
    with pytest.raises(ActorDiedError):
        pool.get_next()
    with pytest.raises(WorkerDiedError, match=r"all actors of the pool are dead; give it others by push\(actor\)"):
        pool.get_next(timeout=120)
    pool.push(Worker.remote())
    assert list(pool.map(double, [3])) == [6]


def test_idle_actors_come_and_go() -> None:
    first, second = Worker.remote(), Worker.remote()
    pool = ActorPool([first])
    with pytest.raises(ValueError, match="belongs to the pool already"):
        pool.push(first)
    gate = Queue()
    pool.submit(lambda actor, x: actor.after.remote(gate, x), 2)
    pool.submit(double, 2)
    assert pool.pop_idle() is None
    pool.push(second)
    gate.put(None)
    assert [pool.get_next(), pool.get_next()] == [2, 4]
    gate.shutdown()
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second} and not pool.has_free()


def test_actors_are_free_without_anybody_taking_results(pool: ActorPool, eventually: Callable[..., Any]) -> None:
    for x in range(4):
        pool.submit(double, x)
    eventually(pool.has_free)
    assert [pool.get_next() for _ in range(4)] == [0, 2, 4, 6]


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_take_every_submission_once(seed: int) -> None:
    dice = random.Random(seed)
    state, taken, forgotten = ActorPoolState(list("abc")), [], []
    for _ in range(300):
        step = dice.random()
        if step < 0.4:
            state.submit("work")
        elif step < 0.7 and state.running:
            state.finish(dice.choice(list(state.running)), alive=dice.random() < 0.98)
        elif step < 0.9 and state.done:
            taken.append(dice.choice(list(state.done)))
            state.take(taken[-1])
        elif step < 0.92 and state.open():
            forgotten.append(dice.choice(state.open()))
            state.forget(forgotten[-1])
        while state.start() is not None:
            pass
        state.hopeless()
        assert not (state.idle and state.pending), "work waits though an actor is idle"
        assert len(set(state.members())) == len(state.members()) <= 3
    count = len(taken) + len(forgotten) + len(state.open())
    assert sorted([*taken, *forgotten, *state.open()]) == list(range(count))
