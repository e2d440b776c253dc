"""Queue: what waits, who waits, and who dies while waiting."""

from __future__ import annotations

import asyncio
import itertools
import os
import queue as standard
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kernel_parallel import Empty, Full, Queue
from kernel_parallel.queue_state import Accept, Give, QueueState

import kernel
from kernel.exceptions import ActorDiedError, TaskCancelledError

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def queue(session: None) -> Iterator[Queue]:
    queue = Queue()
    yield queue
    queue.shutdown(force=True)


@pytest.fixture
def small(session: None) -> Iterator[Queue]:
    queue = Queue(maxsize=2)
    yield queue
    queue.shutdown(force=True)


@kernel.remote(num_cpus=0, max_retries=0)
def take(queue: Queue, timeout: float | None = None) -> Any:
    return queue.get(timeout=timeout)


@kernel.remote(num_cpus=0)
class Getter:
    """A process that waits, and can be killed."""

    def pid(self) -> int:
        return os.getpid()

    def take(self, queue: Queue) -> Any:
        return queue.get()


def waiting(queue: Queue) -> int:
    return int(kernel.get(queue.actor.waiting.remote()))


def test_items_come_out_as_they_went_in(queue: Queue) -> None:
    assert Empty is standard.Empty and Full is standard.Full
    for item in ({"a": 1}, None, [kernel.put("inside")]):
        queue.put(item)
    assert queue.qsize() == queue.size() == len(queue) == 3 and not queue.empty() and not queue.full()
    assert queue.get() == {"a": 1} and queue.get() is None
    assert kernel.get(queue.get()[0]) == "inside" and queue.empty()
    ref = kernel.put("not resolved on the way")
    queue.put(ref)
    assert queue.get() == ref


def test_empty_and_full_are_raised_at_once_or_after_the_timeout(small: Queue) -> None:
    with pytest.raises(Empty):
        small.get_nowait()
    with pytest.raises(Empty):
        small.get(timeout=0.05)
    small.put_nowait(1)
    small.put(2, timeout=120)
    assert small.full()
    with pytest.raises(Full):
        small.put_nowait(3)
    with pytest.raises(Full):
        small.put(3, timeout=0.05)
    assert [small.get(), small.get()] == [1, 2], "what timed out is not in"
    for call in (lambda: small.get(timeout=-1), lambda: small.put(1, timeout=-1)):
        with pytest.raises(ValueError, match="zero or more seconds"):
            call()


def test_batches_are_all_or_nothing(small: Queue) -> None:
    with pytest.raises(Full, match="can't add 3 items to a queue that holds 0 of at most 2"):
        small.put_nowait_batch([1, 2, 3])
    small.put_nowait_batch(iter([1, 2]))
    with pytest.raises(Empty, match="can't take 3 items from a queue that holds 2"):
        small.get_nowait_batch(3)
    assert small.get_nowait_batch(0) == [] and small.get_nowait_batch(2) == [1, 2]
    with pytest.raises(TypeError, match="must be an int"):
        small.get_nowait_batch("2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="zero or more"):
        small.get_nowait_batch(-1)


def test_a_put_waits_for_room_and_keeps_its_turn(small: Queue, eventually: Callable[..., Any]) -> None:
    small.put_nowait_batch([0, 1])
    threads = []
    for number in (2, 3, 4):
        thread = threading.Thread(target=small.put, args=(number,))
        thread.start()
        threads.append(thread)
        eventually(lambda number=number: waiting(small) == number - 1)
    assert [small.get() for _ in range(5)] == [0, 1, 2, 3, 4]
    for thread in threads:
        thread.join(timeout=120)


def test_those_who_wait_stand_in_nobodys_way(queue: Queue, eventually: Callable[..., Any]) -> None:
    waiters = [queue.actor.wait_to_take.remote(None, [kernel.put(None)]) for _ in range(1500)]
    eventually(lambda: waiting(queue) == 1500)
    queue.put("first")
    assert kernel.get(waiters[0]) == ["first"]
    queue.put_nowait_batch(range(1499))
    assert [items[0] for items in kernel.get(waiters[1:])] == list(range(1499))


def test_a_getter_that_was_cancelled_takes_nothing(queue: Queue, eventually: Callable[..., Any]) -> None:
    ref = take.remote(queue)
    eventually(lambda: waiting(queue) == 1)
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError):
        kernel.get(ref)
    queue.put("kept")
    assert queue.get(timeout=120) == "kept"


def test_a_getter_that_was_killed_takes_nothing(queue: Queue, eventually: Callable[..., Any]) -> None:
    getter = Getter.remote()
    pid = kernel.get(getter.pid.remote())
    ref = getter.take.remote(queue)
    eventually(lambda: waiting(queue) == 1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ActorDiedError):
        kernel.get(ref)
    queue.put_nowait_batch([1, 2])
    assert {queue.get(timeout=120), queue.get(timeout=120)} == {1, 2}, "the one that went back may be overtaken"


def test_an_interrupted_getter_takes_nothing(queue: Queue, eventually: Callable[..., Any]) -> None:
    main = threading.get_ident()

    def strike() -> None:
        eventually(lambda: waiting(queue) == 1)
        signal.pthread_kill(main, signal.SIGINT)

    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(KeyboardInterrupt):
        queue.get()
    striking.join()
    queue.put("kept")
    assert queue.get(timeout=120) == "kept"


def test_coroutines_wait_beside_each_other(small: Queue) -> None:
    async def main() -> None:
        getters = [asyncio.ensure_future(small.get_async()) for _ in range(4)]
        await asyncio.gather(*[small.put_async(number) for number in range(4)])
        assert sorted(await asyncio.gather(*getters)) == [0, 1, 2, 3]
        with pytest.raises(Empty):
            await small.get_async(timeout=0.05)
        with pytest.raises(Empty):
            await small.get_async(block=False)
        await small.put_async(1)
        await small.put_async(2)
        with pytest.raises(Full):
            await small.put_async(3, timeout=0.05)
        with pytest.raises(Full):
            await small.put_async(3, block=False)
        assert [await small.get_async(), await small.get_async()] == [1, 2]
        late = asyncio.ensure_future(small.get_async())
        await asyncio.sleep(0.05)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        await small.put_async("kept")
        assert await small.get_async(timeout=120) == "kept"

    asyncio.run(main())


def test_tasks_and_actors_share_it_and_lose_nothing(small: Queue) -> None:
    @kernel.remote(num_cpus=0)
    def produce(queue: Queue, begin: int) -> None:
        for number in range(begin, begin + 25):
            queue.put(number)

    @kernel.remote(num_cpus=0)
    def consume(queue: Queue) -> list[int]:
        return [queue.get() for _ in range(25)]

    consumers = [consume.remote(small) for _ in range(3)]
    kernel.get([produce.remote(small, begin) for begin in (0, 100, 200)])
    found = sorted(itertools.chain(*kernel.get(consumers)))
    assert found == [begin + number for begin in (0, 100, 200) for number in range(25)]


def test_it_has_a_name_if_it_is_given_one() -> None:
    queue = Queue(3, actor_options={"name": "jobs", "num_cpus": 0})
    assert kernel.get_actor("jobs") == queue.actor and "maxsize=3" in repr(queue) and bool(queue)
    queue.shutdown()
    with pytest.raises(ActorDiedError):
        queue.put(1)


def test_who_waits_for_a_queue_that_is_shut_down_is_told(eventually: Callable[..., Any]) -> None:
    queue = Queue()
    ref = take.remote(queue)
    eventually(lambda: waiting(queue) == 1)
    queue.shutdown(grace_period_s=1)
    with pytest.raises(ActorDiedError):
        kernel.get(ref, timeout=120)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_lose_and_repeat_nothing(seed: int) -> None:
    dice = random.Random(seed)
    state, waiters, given, accepted = QueueState(dice.choice([0, 1, 3])), 0, [], 0
    sent, inside = 0, set()
    for _ in range(500):
        todo: Any = []
        step = dice.randrange(5)
        if step == 0:
            todo = state.put([sent]) or []
            if todo or (state.items and state.items[-1] == sent):
                sent += 1
        elif step == 1 and (found := state.take(1)) is not None:
            given += found[0]
            todo = found[1]
        elif step == 2:
            waiters += 1
            todo = state.wait_to_get(waiters)
        elif step == 3:
            waiters += 1
            inside.add(sent)
            todo = state.wait_to_put(waiters, sent)
            sent += 1
        elif step == 4 and waiters:
            state.leave(dice.randint(1, waiters)) if not inside else None
        for instruction in todo:
            if isinstance(instruction, Give):
                given.append(instruction.item)
            else:
                assert isinstance(instruction, Accept)
                accepted += 1
        state.validate()
    assert given == sorted(given) and len(set(given)) == len(given)
    assert given == list(range(len(given))), "in the order in which they were sent"
