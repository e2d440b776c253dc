"""The pool beyond what CPython's tests ask: deaths, big values, closures, laziness, and nothing that hangs."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_parallel import Queue
from kernel_parallel.multiprocessing import MaybeEncodingError, Pool, RemoteTraceback, TimeoutError
from kernel_parallel.multiprocessing.results import MOST_UNREAD

import kernel
from kernel.exceptions import OptionError, SessionEndedError, TaskCancelledError, WorkerDiedError

pytestmark = pytest.mark.usefixtures("session")

state: list[Any] = []
model = None


def told() -> Any:
    return model


class Teller:
    def tell(self) -> Any:
        return told()


@pytest.fixture(scope="module")
def pool(session: None) -> Iterator[Pool]:
    with Pool(2) as pool:
        yield pool


def square(x: int) -> int:
    return x * x


def fail_at_three(x: int) -> int:
    if x == 3:
        raise LookupError(f"no {x}")
    return x


def die_once(path: str) -> str:
    """Die the first time, in whatever worker."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "done"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_values_of_all_kinds_come_back_in_order(pool: Pool) -> None:
    assert pool.map(square, range(1000)) == [x * x for x in range(1000)]
    assert pool.map(square, (x for x in range(7)), chunksize=3) == [0, 1, 4, 9, 16, 25, 36]
    assert pool.map(str, {"a": 1, "b": 2}) == ["a", "b"]
    assert pool.starmap(divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]
    rows = pool.map(np.sum, np.arange(12.0).reshape(4, 3))
    assert rows == [3.0, 12.0, 21.0, 30.0]
    assert pool.map(functools.partial(pow, 2), range(5)) == [1, 2, 4, 8, 16]


def test_functions_that_pickle_refuses_work(pool: Pool) -> None:
    offset = 10
    assert pool.map(lambda x: x + offset, range(3)) == [10, 11, 12]
    offset = 20
    assert pool.map(lambda x: x + offset, range(3)) == [20, 21, 22]
    assert pool.apply(lambda: lambda: 42)() == 42


def test_a_method_is_sent_with_what_its_object_holds_now(pool: Pool) -> None:
    class Scale:
        factor = 2

        def times(self, x: int) -> int:
            return self.factor * x

    scale = Scale()
    assert pool.map(scale.times, [1, 2]) == [2, 4]
    scale.factor = 3
    assert pool.map(scale.times, [1, 2]) == [3, 6]


def test_arrays_may_be_changed_on_both_sides(pool: Pool) -> None:
    def add_one(array: np.ndarray) -> np.ndarray:
        array += 1
        return array

    results = pool.map(add_one, [np.zeros(50_000), np.ones(50_000)])
    results[0][0] = 7
    assert [result[1] for result in results] == [1, 2] and results[0][0] == 7


def test_references_and_handles_in_arguments_stay_what_they_are(pool: Pool) -> None:
    ref, queue = kernel.put("stored"), Queue()
    pool.starmap(lambda queue, refs: queue.put(kernel.get(refs[0])), [(queue, [ref])] * 3)
    assert queue.get_nowait_batch(3) == ["stored"] * 3
    queue.shutdown()


def test_an_error_carries_its_remote_traceback(pool: Pool) -> None:
    with pytest.raises(LookupError, match="no 3") as caught:
        pool.map(fail_at_three, range(10), chunksize=2)
    assert type(caught.value) is LookupError and type(caught.value.__cause__) is RemoteTraceback
    assert "in fail_at_three" in str(caught.value.__cause__)
    result = pool.map_async(fail_at_three, range(10), chunksize=1)
    result.wait()
    assert result.ready() and not result.successful()


def test_what_cannot_be_sent_says_so(pool: Pool) -> None:
    with pytest.raises(MaybeEncodingError, match="lock"):
        pool.apply(threading.Lock)
    with pytest.raises(TypeError, match="lock"):
        pool.apply(square, (threading.Lock(),))
    with pytest.raises(NotImplementedError, match="pool objects cannot be passed"):
        pickle.dumps(pool)


def test_a_timeout_leaves_the_result_to_come(pool: Pool) -> None:
    queue = Queue()
    result = pool.apply_async(queue.get)
    with pytest.raises(TimeoutError):
        result.get(timeout=0.05)
    with pytest.raises(ValueError, match="not ready"):
        result.successful()
    results = pool.imap(lambda queue: queue.get(), [queue])
    with pytest.raises(TimeoutError):
        results.next(timeout=0.05)
    queue.put_nowait_batch([1, 1])
    assert result.get() == results.next() == 1
    queue.shutdown()


def test_a_killed_worker_costs_only_time(pool: Pool, tmp_path: Path) -> None:
    paths = [str(tmp_path / str(number)) for number in range(3)]
    assert pool.map(die_once, paths, chunksize=1) == ["done"] * 3
    assert list(pool.imap(die_once, [str(tmp_path / "imap")])) == ["done"]
    assert pool.apply(die_once, [str(tmp_path / "apply")]) == "done"
    assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]


def test_a_task_that_always_kills_its_worker_fails_and_the_others_do_not() -> None:
    def suicide(x: int) -> int:
        if x == 1:
            os._exit(9)
        return x

    with Pool(2, kernel_remote_args={"max_task_retries": 1}) as pool:
        results = [pool.apply_async(suicide, (x,)) for x in range(4)]
        with pytest.raises(WorkerDiedError, match=r"suicide\(\) was tried 2 times.* exit code 9") as caught:
            results[1].get(timeout=120)
        assert "max_task_retries" in str(caught.value)
        assert [results[x].get(timeout=120) for x in (0, 2, 3)] == [0, 2, 3]


def test_a_task_that_exits_fails_at_once(pool: Pool) -> None:
    with pytest.raises(WorkerDiedError, match=r"exit\(\) called sys\.exit\(3\) in a worker"):
        pool.apply(exit_with, (3,))


def exit_with(code: int) -> None:
    import sys

    sys.exit(code)


exit_with.__qualname__ = "exit"


def test_the_initializer_runs_once_in_each_worker() -> None:
    def initialize(*values: int) -> None:
        state.extend(values)
        globals()["model"] = "loaded"

    with Pool(2, initialize, (1, 2)) as pool:
        assert pool.map(lambda _: (list(state), told()), range(6), chunksize=1) == [([1, 2], "loaded")] * 6
        assert pool.apply(told) == "loaded" and pool.apply(Teller().tell) == "loaded"
    assert model is None


def test_what_an_initializer_raises_every_task_raises() -> None:
    def initialize() -> None:
        raise RuntimeError("no model here")

    with Pool(2, initialize) as pool:
        with pytest.raises(RuntimeError, match="no model here"):
            pool.map(square, range(4))


def test_workers_serve_their_time_and_are_replaced() -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = [pool.apply(os.getpid) for _ in range(6)]
    assert [len(set(pids[i : i + 2])) for i in (0, 2, 4)] == [1, 1, 1] and len(set(pids)) == 3


def test_the_workers_are_there_to_look_at(pool: Pool) -> None:
    pids = {worker.pid for worker in pool._pool}
    assert len(pids) == 2 and os.getpid() not in pids
    assert set(pool.map(pid_after, [0.05] * 8, chunksize=1)) <= pids
    assert all(worker.is_alive() for worker in pool._pool)


def test_terminate_ends_what_waits_with_an_error() -> None:
    pool = Pool(2)
    results = [pool.apply_async(time.sleep, (600,)), pool.map_async(time.sleep, [600] * 100, chunksize=1)]
    waiting = pool.imap(time.sleep, [600] * 3)
    pool.terminate()
    pool.join()
    for result in results:
        with pytest.raises(TaskCancelledError, match="the pool was terminated"):
            result.get(timeout=120)
    with pytest.raises(TaskCancelledError):
        waiting.next(timeout=120)
    with pytest.raises(ValueError, match="not running"):
        pool.map(square, [1])


def test_close_lets_everything_finish() -> None:
    pool = Pool(2)
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    seen: list[Any] = []
    results = pool.imap_unordered(square, iter(range(50)))
    pool.apply_async(square, (3,), callback=seen.append)
    pids = [worker.pid for worker in pool._pool]
    pool.close()
    pool.join()
    assert seen == [9] and sorted(results) == sorted(x * x for x in range(50))
    assert not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids), "the workers are gone when join() returns"


def test_a_callback_that_raises_is_logged_and_stops_nothing(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    result = pool.apply_async(square, (2,), callback=lambda value: 1 / 0)
    assert result.get(timeout=120) == 4 and "a callback of a pool raised" in caplog.text


def test_a_callback_may_use_the_pool() -> None:
    with Pool(1) as pool:
        inner: list[Any] = []
        result = pool.apply_async(square, (2,), callback=lambda value: inner.extend(pool.map(square, [value] * 3)))
        assert result.get(timeout=120) == 4 and inner == [16] * 3


def test_imap_reads_no_more_than_is_worked_on() -> None:
    read = 0

    def source() -> Iterator[int]:
        nonlocal read
        while True:
            yield read
            read += 1

    with Pool(1) as pool:
        endless = pool.imap(square, source())
        assert list(itertools.islice(endless, 300)) == [x * x for x in range(300)]
        assert next(pool.imap_unordered(square, itertools.count(5))) in {x * x for x in range(5, 2000)}
        assert read < MOST_UNREAD + 1000


def test_imap_does_its_work_when_nobody_reads_the_results(tmp_path: Path) -> None:
    pool = Pool(2)
    pool.imap_unordered(Path.touch, (tmp_path / str(number) for number in range(40)))
    pool.close()
    pool.join()
    assert len(list(tmp_path.iterdir())) == 40


def test_imap_feeds_on_its_own_results(pool: Pool) -> None:
    seen: list[int] = [1]
    arrived = threading.Semaphore(1)

    def source() -> Iterator[int]:
        for _ in range(5):
            assert arrived.acquire(timeout=120)
            yield seen[-1]

    for value in pool.imap(lambda x: x * 2, source()):
        seen.append(value)
        arrived.release()
    assert seen == [1, 2, 4, 8, 16, 32]


def test_quick_calls_do_not_stand_in_the_way_of_those_they_wait_for(pool: Pool) -> None:
    questions, answers = Queue(), Queue()

    def work(x: int) -> int:
        if x == 500:
            questions.put("?")
            return int(answers.get(timeout=120))
        if x == 501:
            questions.get(timeout=120)
            answers.put(41)
        return x

    results = pool.map(work, range(502), chunksize=1)
    assert results[:3] == [0, 1, 2] and results[500:] == [41, 501]
    questions.shutdown()
    answers.shutdown()


def test_one_of_many_quick_calls_fails_for_itself_alone(pool: Pool) -> None:
    lock = threading.Lock()
    pool.map(square, range(100), chunksize=1)
    results = [pool.apply_async(square, (lock if x == 70 else x,)) for x in range(100)]
    with pytest.raises(TypeError, match="lock"):
        results[70].get(timeout=120)
    assert [results[x].get(timeout=120) for x in (0, 69, 71, 99)] == [0, 69**2, 71**2, 99**2]
    locks = [pool.apply_async(maybe_lock, (x,)) for x in range(100)]
    with pytest.raises(MaybeEncodingError):
        locks[70].get(timeout=120)
    assert [locks[x].get(timeout=120) for x in (0, 69, 71, 99)] == [0, 69, 71, 99]


def maybe_lock(x: int) -> Any:
    return threading.Lock() if x == 70 else x


def test_threads_share_a_pool(pool: Pool) -> None:
    found: dict[int, list[int]] = {}

    def use(number: int) -> None:
        for _ in range(5):
            found[number] = pool.map(square, range(number, number + 40), chunksize=7)
            assert pool.apply(square, (number,)) == number**2

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert found == {number: [x * x for x in range(number, number + 40)] for number in range(6)}


def test_an_interrupted_caller_leaves_a_pool_that_works(pool: Pool, eventually: Callable[..., Any]) -> None:
    gate = Queue()
    main = threading.get_ident()

    def strike() -> None:
        eventually(lambda: kernel.get(gate.actor.waiting.remote()) == 2)
        signal.pthread_kill(main, signal.SIGINT)

    striking = threading.Thread(target=strike)
    striking.start()
    with pytest.raises(KeyboardInterrupt):
        pool.map(lambda queue: queue.get(), [gate] * 2, chunksize=1)
    striking.join()
    gate.put_nowait_batch([None, None])
    assert pool.map_async(square, range(4)).get(timeout=120) == [0, 1, 4, 9]
    gate.shutdown()


def test_a_pool_in_a_worker_of_a_pool(pool: Pool) -> None:
    def nested(count: int) -> list[int]:
        with Pool(2) as inner:
            return inner.map(square, range(count))

    assert pool.map(nested, [3, 4]) == [[0, 1, 4], [0, 1, 4, 9]]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Pool(0)
    with pytest.raises(ValueError, match="maxtasksperchild must be a positive int"):
        Pool(1, maxtasksperchild=0)
    with pytest.raises(TypeError, match="initializer must be a callable"):
        Pool(1, initializer=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="num_cpus"):
        Pool(1, kernel_remote_args={"num_cpu": 1})
    with pytest.raises(OptionError, match="not restarted but replaced"):
        Pool(1, kernel_remote_args={"max_restarts": 1})
    with pytest.raises(OptionError, match="can't share a name"):
        Pool(1, kernel_remote_args={"name": "x"})
    with pytest.warns(UserWarning, match="the context of a pool is ignored"):
        Pool(1, context="spawn").terminate()


def test_options_of_the_workers_are_theirs() -> None:
    with Pool(1, kernel_remote_args={"num_cpus": 1, "runtime_env": {"env_vars": {"POOL_COLOUR": "red"}}}) as pool:
        assert pool.apply(os.getenv, ("POOL_COLOUR",)) == "red"
        assert pool.apply(lambda: kernel.get_runtime_context().get_assigned_resources()) == {"CPU": 1.0}


def test_a_session_that_ends_ends_the_pools_work(eventually: Callable[..., Any]) -> None:
    kernel.shutdown()
    try:
        pool = Pool(2)  # starts a session
        assert kernel.is_initialized() and pool.map(square, [3]) == [9]
        result = pool.apply_async(time.sleep, (600,))
        kernel.shutdown()
        with pytest.raises(SessionEndedError, match="shut down|ended|gone"):
            result.get(timeout=120)
        pool.terminate()
    finally:
        kernel.shutdown()
        kernel.init(num_cpus=2, log_to_driver=False)
