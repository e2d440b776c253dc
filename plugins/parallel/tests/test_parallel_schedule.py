"""What decides in pools, without processes: sizes of chunks, places of workers, and who works on what."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_parallel.workers.chunks import QUICK_SECONDS, chunk_size
from kernel_parallel.workers.functions import UNKEPT, Functions
from kernel_parallel.workers.jobs import MAP, CallJob, Chunk, FedJob, MapJob
from kernel_parallel.workers.messages import PATIENCE_SECONDS, Message, overdue, seconds_to_overdue
from kernel_parallel.workers.placement import spread
from kernel_parallel.workers.schedule import Schedule, ScheduledWorker
from kernel_parallel.workers.worker import MessageProgress


@given(st.integers(1, 10_000), st.integers(1, 64), st.one_of(st.none(), st.floats(0, 10)))
def test_chunks_cover_everything_and_none_is_more_than_an_even_share(
    total: int, workers: int, seconds: float | None
) -> None:
    left, sizes = total, []
    while left:
        sizes.append(chunk_size(total, left, workers, seconds))
        left -= sizes[-1]
        assert 0 < sizes[-1] <= -(-total // workers)
    assert sum(sizes) == total


def test_quick_items_need_a_message_for_each_worker_and_slow_ones_many() -> None:
    assert chunk_size(1000, 1000, 2, QUICK_SECONDS / 1000) == 500
    assert chunk_size(1000, 1000, 2, 1.0) == chunk_size(1000, 1000, 2, None) == 125
    assert chunk_size(1000, 3, 2, 1.0) == 1


def test_workers_are_spread_in_proportion_to_cpus() -> None:
    assert spread(4, {"a": 1, "b": 3}) == ["b", "b", "a", "b"] or sorted(spread(4, {"a": 1, "b": 3})) == list("abbb")
    assert sorted(spread(4, {"a": 8, "b": 0})) == list("aaaa")
    assert sorted(spread(3, {"a": 0, "b": 0})) in (list("aab"), list("abb"))


class Log:
    """Notes what a job was told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, *what: Any) -> None:
        self.heard.append(what)


def double(x: int) -> int:
    return x * 2


def schedule_of(workers: int, burst: int = 1, max_tasks: int | None = None, retries: float = 1) -> Schedule:
    schedule = Schedule(max_tasks, retries, lambda function: burst)
    for number in range(workers):
        schedule.add_worker(ScheduledWorker(number))
    return schedule


def test_first_come_first_served_and_a_helper_takes_only_its_own() -> None:
    schedule, log = schedule_of(2), Log()
    first, second = (MapJob(double, range(2), MAP, log, chunksize=1) for _ in range(2))
    schedule.add_job(first)
    schedule.add_job(second)
    assert schedule.assign(second) is None, "it is not the first"
    worker, (chunk,) = schedule.assign() or pytest.fail()
    assert (chunk.job, chunk.place) == (first, 0)
    assert (schedule.assign(first) or pytest.fail())[1][0].place == 1
    assert schedule.assign() is None, "nobody is idle"
    schedule.finish(worker)
    assert schedule.wants_driver and (schedule.assign() or pytest.fail())[1][0].job is second


def test_a_lost_chunk_is_tried_again_first_and_then_given_up() -> None:
    schedule, log = schedule_of(2), Log()
    job = MapJob(double, range(3), MAP, log, chunksize=1)
    schedule.add_job(job)
    worker, chunks = schedule.assign() or pytest.fail()
    assert schedule.lose(worker, chunks) == (True, [])
    worker, again = schedule.assign() or pytest.fail()
    assert again == chunks and again[0].attempts == 2
    assert schedule.lose(worker, again) == (True, again), "one retry was allowed"
    assert schedule.workers == []


def test_quick_calls_share_a_message_and_leave_some_for_others() -> None:
    schedule, log = schedule_of(2, burst=100), Log()
    for x in range(10):
        schedule.add_job(CallJob(double, (x,), {}, log))
    assert len((schedule.assign() or pytest.fail())[1]) == 5
    schedule.add_job(CallJob(print, (), {}, log))
    assert len((schedule.assign() or pytest.fail())[1]) == 3
    schedule.validate()


def test_a_quick_function_is_sent_ahead_and_a_slow_one_never() -> None:
    schedule, log = schedule_of(1, burst=2), Log()
    schedule.add_job(MapJob(double, range(3), MAP, log, chunksize=5))
    schedule.add_job(MapJob(double, range(3), MAP, log, chunksize=5))
    schedule.add_job(MapJob(double, range(3), MAP, log, chunksize=5))
    first, second = schedule.assign() or pytest.fail(), schedule.assign() or pytest.fail()
    assert first[0] is second[0] and schedule.assign() is None, "two at a time"
    schedule.finish(first[0])
    assert schedule.assign() is not None
    slow = schedule_of(1)
    slow.add_job(MapJob(double, range(3), MAP, log, chunksize=1))
    assert slow.assign() is not None and slow.assign() is None
    schedule.give_back(second[1])
    assert schedule.assign() is None, "what was given back is for the idle"
    new, failed = schedule.lose(first[0], first[1])
    assert new and not failed and schedule.lose(first[0], second[1]) == (False, [])
    schedule.validate()


def test_a_worker_that_has_served_its_time_is_not_used_again() -> None:
    schedule, log = schedule_of(1, max_tasks=2), Log()
    schedule.add_job(MapJob(double, range(5), MAP, log, chunksize=1))
    retired = [schedule.finish((schedule.assign() or pytest.fail())[0]) for _ in range(2)]
    assert retired == [False, True] and schedule.assign() is None


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_lose_and_repeat_nothing(seed: int) -> None:
    dice = random.Random(seed)
    schedule = schedule_of(3, burst=dice.choice([1, 10]), max_tasks=dice.choice([None, 3]), retries=2)
    logs: list[Log] = []
    running: list[tuple[ScheduledWorker, list[Chunk]]] = []
    number = 3

    def tell(chunks: list[Chunk], ok: bool) -> None:
        for chunk in chunks:
            if chunk.job.settle(chunk, ok, [0] * chunk.size if ok else ValueError("lost")):
                schedule.end_job(chunk.job)

    for step in range(4000):
        if step < 200 and dice.random() < 0.3:
            log = Log()
            logs.append(log)
            if dice.random() < 0.5:
                schedule.add_job(CallJob(double, (1,), {}, log))
            else:
                schedule.add_job(MapJob(double, range(dice.randint(1, 20)), MAP, log, dice.choice([None, 1, 3])))
        while (assigned := schedule.assign()) is not None:
            running.append(assigned)
        schedule.validate()
        if not running and step > 200:
            break
        if running:
            worker, chunks = running.pop(dice.randrange(len(running)))
            if dice.random() < 0.2:
                replaced, failed = schedule.lose(worker, chunks)
                tell(failed, False)
            else:
                replaced = schedule.finish(worker)
                tell(chunks, True)
            if replaced:
                number += 1
                schedule.add_worker(ScheduledWorker(number))
    assert [len(log.heard) for log in logs] == [1] * len(logs) and not schedule.jobs


def test_a_fed_job_is_over_when_it_is_fed_and_settled() -> None:
    log = Log()
    job = FedJob(double, MAP, log, ahead=2)
    assert job.feed([1]) and job.feed([2]) and job.waiting() == 2
    first, second = job.take(1), job.take(1)
    assert first is not None and second is not None and job.take(1) is None
    assert not job.settle(second, True, [4]) and not job.end() and job.settle(first, True, [2])
    assert log.heard == [(1, True, [4]), (0, True, [2])]
    job.cancel(ValueError("over"))
    assert not job.feed([3])


def test_only_functions_that_cannot_have_changed_are_kept() -> None:
    functions, number = Functions(), 3
    assert functions.key_of(double) == functions.key_of(double) == 0 and functions.key_of(len) == 1
    for function in (lambda: number, [].append, Log()):
        assert functions.key_of(function) == UNKEPT


def test_only_what_was_quick_many_times_is_put_together() -> None:
    functions = Functions()
    assert functions.burst(double) == 1
    functions.learn(double, 1e-6, 15)
    assert functions.burst(double) == 1
    functions.learn(double, 1e-6, 1)
    assert functions.burst(double) > 100
    functions.learn(double, 1e-3, 1)
    assert functions.burst(double) == 1
    functions.learn(double, 1e-6, 16)
    functions.keep_apart(double)
    functions.learn(double, 1e-6, 16)
    assert functions.burst(double) == 1, "it has disappointed once"
    functions.learn(double, 1e-6, 144)
    assert functions.burst(double) > 100


def test_what_was_thought_to_be_quick_is_asked_back_in_time() -> None:
    worker = ScheduledWorker(None)
    alone, together = Message(worker, [], 1, 10.0, False), Message(worker, [], 2, 11.0, True)
    assert seconds_to_overdue([alone], 99.0) is None and overdue([alone], 99.0) == []
    assert seconds_to_overdue([alone, together], 11.0) == pytest.approx(PATIENCE_SECONDS)
    assert overdue([alone, together], 11.0) == [] and overdue([alone, together], 12.0) == [together]
    assert seconds_to_overdue([together], 99.0) == 0.0


def test_a_worker_gives_back_what_has_not_begun() -> None:
    progress = MessageProgress()
    assert [progress.begin(1), progress.begin(1), progress.stop(1), progress.begin(1)] == [True, True, 2, False]
    assert progress.stop(3) == 0 and progress.begin(2) and not progress.begin(3) and progress.begin(4)
    assert progress.stop(2) > 1000, "it is over"
