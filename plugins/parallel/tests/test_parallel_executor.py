"""KernelExecutor, as `concurrent.futures` is used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ALL_COMPLETED, CancelledError, Executor, as_completed, wait
from typing import Any

import pytest
from kernel_parallel import KernelExecutor, Queue

from kernel.exceptions import TaskCancelledError, WorkerDiedError

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(scope="module")
def executor(session: None) -> Iterator[KernelExecutor]:
    with KernelExecutor(2) as executor:
        yield executor


def power(base: int, exponent: int = 2) -> int:
    return base**exponent


def test_submit_gives_futures(executor: KernelExecutor, eventually: Callable[..., Any]) -> None:
    assert isinstance(executor, Executor)
    futures = [executor.submit(power, x, exponent=3) for x in range(20)]
    assert sorted(future.result() for future in as_completed(futures, timeout=120)) == [x**3 for x in range(20)]
    assert wait(futures, return_when=ALL_COMPLETED).not_done == set()
    seen: list[int] = []
    executor.submit(power, 5).add_done_callback(lambda future: seen.append(future.result()))
    assert executor.submit(power, 1).result(timeout=120) == 1 and executor.submit(len, "ab").result() == 2
    failure = executor.submit(power, "a")
    assert isinstance(failure.exception(timeout=120), TypeError) and "in power" in str(failure.exception().__cause__)
    eventually(lambda: seen == [25])


@pytest.mark.parametrize("chunksize", [1, 4])
def test_map_keeps_the_order(executor: KernelExecutor, chunksize: int) -> None:
    assert list(executor.map(power, range(10), [3] * 10, chunksize=chunksize)) == [x**3 for x in range(10)]
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        executor.map(power, [1], chunksize=0)
    queue = Queue()
    with pytest.raises(TimeoutError):
        list(executor.map(lambda queue: queue.get(), [queue], timeout=0.05, chunksize=chunksize))
    queue.put(None)
    queue.shutdown()


def test_what_was_not_sent_can_be_cancelled(session: None) -> None:
    executor, gate = KernelExecutor(1), Queue()
    runs = executor.submit(gate.get)
    waits = [executor.submit(power, x) for x in range(3)]
    assert waits[1].cancel() and not runs.cancel()
    with pytest.raises(CancelledError):
        waits[1].result()
    executor.shutdown(wait=False, cancel_futures=True)
    assert waits[0].cancelled() and waits[2].cancelled()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(power, 1)
    gate.put("done")
    assert runs.result(timeout=120) == "done", "what runs is finished"
    executor.shutdown()
    gate.shutdown()


def test_shutdown_waits_for_everything(session: None) -> None:
    with KernelExecutor(2, max_tasks_per_child=2) as executor:
        futures = [executor.submit(os.getpid) for _ in range(8)]
    assert all(future.done() for future in futures)
    pids = [future.result() for future in futures]
    assert max(pids.count(pid) for pid in pids) <= 2


def test_event_loops_use_it(executor: KernelExecutor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[loop.run_in_executor(executor, power, x) for x in range(5)])

    assert asyncio.run(main()) == [0, 1, 4, 9, 16]


def test_workers_that_die_fail_only_their_own(session: None) -> None:
    with KernelExecutor(1, kernel_remote_args={"max_task_retries": 0}) as executor:
        dies, lives = executor.submit(os._exit, 1), executor.submit(power, 3)
        with pytest.raises(WorkerDiedError, match=r"_exit\(\) was tried 1 times"):
            dies.result(timeout=120)
        assert lives.result(timeout=120) == 9


def test_terminate_fails_what_runs(session: None) -> None:
    executor, gate = KernelExecutor(1), Queue()
    future = executor.submit(gate.get)
    executor.terminate()
    with pytest.raises(TaskCancelledError, match="the executor was terminated"):
        future.result(timeout=120)
    gate.shutdown()


def test_what_cannot_be_is_refused(session: None) -> None:
    with pytest.raises(ValueError, match="max_workers must be at least 1"):
        KernelExecutor(0)
    with pytest.raises(ValueError, match="max_tasks_per_child must be at least 1"):
        KernelExecutor(1, max_tasks_per_child=0)
    with pytest.raises(TypeError, match="initializer must be a callable"):
        KernelExecutor(1, initializer=3)  # type: ignore[arg-type]
