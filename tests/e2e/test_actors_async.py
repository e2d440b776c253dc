"""Async actors: coroutines on one loop, limits, plain methods beside them, streams, cancelling, leaving."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.exceptions import ActorDiedError, ActorUnavailableError, TaskCancelledError, TaskError

pytestmark = pytest.mark.usefixtures("session")

SECONDS = 120.0


@kernel.remote
def double(x: int) -> int:
    return 2 * x


@kernel.remote
class Service:
    def __init__(self) -> None:
        self.active = 0
        self.most = 0
        self.met = 0
        self.events: dict[str, asyncio.Event] = {}
        self.freed = threading.Event()

    async def nap(self, seconds: float) -> int:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.active -= 1
        return self.most

    async def meet(self, number: int, seconds: float = 0.0) -> int:
        """Wait for as many calls at once, then nap; return how many there were at most."""
        self.met += 1
        if self.met == number:
            await self.set("met")
        self.active += 1
        self.most = max(self.most, self.active)
        await self.wait_for("met")
        await asyncio.sleep(seconds)
        self.active -= 1
        return self.most

    async def thread(self) -> int:
        return threading.get_ident()

    async def wait_for(self, name: str) -> str:
        await self.events.setdefault(name, asyncio.Event()).wait()
        return name

    async def set(self, name: str) -> None:
        self.events.setdefault(name, asyncio.Event()).set()

    async def chain(self, x: int) -> int:
        return await double.remote(await double.remote(x))

    async def gather(self, count: int) -> list[int]:
        return list(await asyncio.gather(*[double.remote(number) for number in range(count)]))

    async def combine(self) -> tuple[int, int, bool]:
        slow = slowly.remote(0.2, 5)
        done, pending = await asyncio.wait([double.remote(1).as_future(), double.remote(2).as_future()])
        try:
            await asyncio.wait_for(slowly.remote(30, 0), 0.05)
            late = False
        except asyncio.TimeoutError:
            late = True
        return len(done) + len(pending), await slow, late

    async def fail(self) -> None:
        raise LookupError("in a coroutine")

    async def items(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    async def items_between(self) -> AsyncIterator[int]:
        yield 0
        await self.wait_for("go on")
        yield 1

    async def met_items(self, number: int) -> AsyncIterator[int]:
        yield await self.meet(number)

    def plain_items(self, count: int) -> Iterator[int]:
        assert self.freed.wait(SECONDS), "nobody called free()"
        yield from range(count)

    def plain(self) -> tuple[int, bool]:
        return threading.get_ident(), asyncio.get_running_loop().is_running()

    def make_task(self, name: str) -> None:
        self.task = asyncio.get_running_loop().create_task(self.set(name))

    async def leave_later(self) -> None:
        async def go() -> None:
            kernel.exit_actor()

        self.task = asyncio.get_running_loop().create_task(go())

    async def never_ends(self, path: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            Path(path).write_text("cleaned up")

    async def free(self) -> None:
        self.freed.set()

    async def cancelled(self) -> str:
        self.outcome = "started"
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.outcome = "cancelled"
            raise
        return "finished"

    async def keeps_it_to_itself(self) -> str:
        self.outcome = "started"
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.outcome = "kept"
        return "finished"

    async def last_outcome(self) -> str:
        return getattr(self, "outcome", "")

    async def leave(self) -> None:
        kernel.exit_actor()

    def leave_plainly(self) -> None:
        kernel.exit_actor()

    async def crash(self) -> None:
        os._exit(4)

    async def pid(self) -> int:
        return os.getpid()

    async def block_the_loop(self) -> int:
        return int(kernel.get(double.remote(4)))

    async def name_of_call(self) -> tuple[str | None, str | None]:
        before = kernel.get_runtime_context().get_task_id()
        await asyncio.sleep(0.05)
        assert kernel.get_runtime_context().get_task_id() == before
        return before, kernel.get_runtime_context().get_task_name()


@kernel.remote
def slowly(seconds: float, value: Any) -> Any:
    time.sleep(seconds)
    return value


def test_coroutines_run_side_by_side_on_one_thread() -> None:
    service = Service.remote()
    assert kernel.get([service.meet.remote(50) for _ in range(50)], timeout=SECONDS) == [50] * 50
    assert len(set(kernel.get([service.thread.remote() for _ in range(20)]))) == 1


def test_limit_lets_the_next_start_as_earlier_ones_end() -> None:
    service = Service.options(max_concurrency=10).remote()
    assert max(kernel.get([service.meet.remote(10, 0.1) for _ in range(50)], timeout=SECONDS)) == 10


def test_default_limit_is_a_thousand() -> None:
    service = Service.remote()
    assert max(kernel.get([service.meet.remote(1000, 0.5) for _ in range(1200)], timeout=SECONDS)) == 1000


def test_calls_wait_for_each_other() -> None:
    service = Service.remote()
    waiting = [service.wait_for.remote(name) for name in "abc"]
    for name in "cba":
        service.set.remote(name)
    assert kernel.get(waiting, timeout=SECONDS) == ["a", "b", "c"]


def test_coroutines_start_in_the_order_of_the_calls() -> None:
    @kernel.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        async def add(self, number: int) -> None:
            self.seen.append(number)

        async def read(self) -> list[int]:
            return self.seen

    log = Log.remote()
    for number in range(100):
        log.add.remote(slowly.remote(0.1, number) if number == 3 else number)
    assert kernel.get(log.read.remote()) == list(range(100))


def test_references_are_awaited() -> None:
    service = Service.remote()
    assert kernel.get(service.chain.remote(10)) == 40
    assert kernel.get(service.gather.remote(20)) == [2 * number for number in range(20)]
    assert kernel.get(service.combine.remote()) == (2, 5, True)


def test_async_actor_in_an_async_driver() -> None:
    service = Service.remote()

    async def main() -> list[Any]:
        one = await service.chain.remote(1)
        many = await asyncio.gather(*[service.chain.remote(number) for number in range(10)])
        with pytest.raises(LookupError, match="in a coroutine"):
            await service.fail.remote()
        items = [await ref async for ref in service.items.remote(5)]
        return [one, many, items]

    assert asyncio.run(main()) == [4, [4 * number for number in range(10)], [0, 1, 2, 3, 4]]


def test_error_of_a_coroutine_is_the_users_own() -> None:
    with pytest.raises(LookupError, match="in a coroutine") as caught:
        kernel.get(Service.remote().fail.remote())
    assert isinstance(caught.value, TaskError)


def test_plain_methods_run_on_the_thread_of_the_running_loop() -> None:
    service = Service.remote()
    assert kernel.get(service.plain.remote()) == (kernel.get(service.thread.remote()), True)
    waiting = service.wait_for.remote("task")
    kernel.get(service.make_task.remote("task"))
    assert kernel.get(waiting, timeout=SECONDS) == "task"


def test_a_plain_method_that_returns_a_reference_returns_it() -> None:
    @kernel.remote
    class Starter:
        async def ready(self) -> None:
            return

        def start(self) -> Any:
            return double.remote(2)

    assert kernel.get(kernel.get(Starter.remote().start.remote())) == 4


def test_concurrency_groups_have_loops_of_their_own(tmp_path: Path) -> None:
    @kernel.remote(concurrency_groups={"io": 2, "compute": 2})
    class Grouped:
        async def thread(self) -> int:
            return threading.get_ident()

        @kernel.method(concurrency_group="io")
        def plain_io(self) -> int:
            assert asyncio.get_running_loop().is_running()
            return threading.get_ident()

        async def wait_for_file(self, path: str) -> int:
            """Block the loop."""
            deadline = time.monotonic() + SECONDS
            while not Path(path).exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return threading.get_ident()

        @kernel.method(concurrency_group="io")
        async def wait_for_file_in_io(self, path: str) -> int:
            return await self.wait_for_file(path)

        @kernel.method(concurrency_group="compute")
        async def compute(self, x: int) -> tuple[int, int]:
            await asyncio.sleep(0.01)
            return threading.get_ident(), await double.remote(x)

        @kernel.method(concurrency_group="compute")
        async def items(self, count: int) -> AsyncIterator[int]:
            for number in range(count):
                yield number

        @kernel.method(concurrency_group="compute")
        async def asleep(self) -> None:
            await asyncio.sleep(3600)

    for method in ("wait_for_file_in_io", "wait_for_file"):
        grouped = Grouped.remote()
        main = kernel.get(grouped.thread.remote())
        path = str(tmp_path / f"{method} goes on")
        blocking = getattr(grouped, method).remote(path)
        thread, doubled = kernel.get(grouped.compute.remote(4), timeout=SECONDS)
        assert doubled == 8 and thread != main
        assert [kernel.get(ref) for ref in grouped.items.options(stream_ahead=2).remote(20)] == list(range(20))
        asleep = grouped.asleep.remote()
        kernel.get(grouped.compute.remote(1), timeout=SECONDS)
        kernel.cancel(asleep)
        with pytest.raises(TaskCancelledError):
            kernel.get(asleep, timeout=SECONDS)
        in_io = method == "wait_for_file_in_io"
        if in_io:
            assert kernel.get(grouped.thread.remote(), timeout=SECONDS) == main
        Path(path).touch()
        expected = grouped.plain_io.remote() if in_io else grouped.thread.remote()
        assert kernel.get([blocking, expected], timeout=SECONDS)[0] == kernel.get(expected)


def test_streams_of_async_and_plain_generators() -> None:
    service = Service.remote()
    assert [kernel.get(ref) for ref in service.items.remote(50)] == list(range(50))
    plain = service.plain_items.remote(30)
    kernel.get(service.free.remote(), timeout=SECONDS)  # the plain generator waits for it, and holds up no loop
    assert [kernel.get(ref) for ref in plain] == list(range(30))
    between = service.items_between.remote()
    assert kernel.get(next(between)) == 0, "items come while the generator runs"
    service.set.remote("go on")
    assert [kernel.get(ref) for ref in between] == [1]


def test_stream_waits_for_its_consumer_and_stops_when_closed(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Source:
        def __init__(self) -> None:
            self.made = 0
            self.closed = False

        async def endless(self) -> AsyncIterator[int]:
            try:
                while True:
                    self.made += 1
                    yield self.made
            finally:
                self.closed = True

        async def told(self) -> tuple[int, bool]:
            return self.made, self.closed

    source = Source.remote()
    stream = source.endless.options(stream_ahead=3).remote()
    assert [kernel.get(next(stream)) for _ in range(5)] == [1, 2, 3, 4, 5]
    made, closed = kernel.get(source.told.remote())
    assert 5 <= made <= 9 and not closed
    stream.close()
    eventually(lambda: kernel.get(source.told.remote())[1])


def test_two_streams_run_side_by_side() -> None:
    service = Service.remote()
    streams = [service.met_items.remote(10) for _ in range(10)]
    assert [[kernel.get(ref) for ref in stream] for stream in streams] == [[10]] * 10


def test_running_coroutine_is_cancelled(eventually: Callable[..., Any]) -> None:
    service = Service.remote()
    ref = service.cancelled.remote()
    eventually(lambda: kernel.get(service.last_outcome.remote()) == "started")
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError, match=r"Service\.cancelled\(\)"):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(service.last_outcome.remote()) == "cancelled"


def test_cancelled_coroutine_that_returns_all_the_same_is_cancelled(eventually: Callable[..., Any]) -> None:
    service = Service.remote()
    ref = service.keeps_it_to_itself.remote()
    eventually(lambda: kernel.get(service.last_outcome.remote()) == "started")
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError, match=r"Service\.keeps_it_to_itself\(\)"):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(service.last_outcome.remote()) == "kept"


def test_waiting_coroutine_never_runs_once_cancelled(eventually: Callable[..., Any]) -> None:
    service = Service.options(max_concurrency=2).remote()
    first = service.wait_for.remote("go")
    second = service.wait_for.remote("go")
    waiting = service.cancelled.remote()
    kernel.cancel(waiting)
    with pytest.raises(TaskCancelledError):
        kernel.get(waiting, timeout=SECONDS)
    kernel.cancel(first)
    service.set.remote("go")
    assert kernel.get(second, timeout=SECONDS) == "go"
    with pytest.raises(TaskCancelledError):
        kernel.get(first, timeout=SECONDS)
    assert kernel.get(service.last_outcome.remote()) == ""


@pytest.mark.parametrize("method", ["leave", "leave_plainly"])
def test_leaving_lets_the_calls_beside_it_finish(method: str) -> None:
    service = Service.remote()
    pid = kernel.get(service.pid.remote())
    beside = service.nap.remote(0.3)
    leaving = getattr(service, method).remote()
    with pytest.raises(ActorDiedError, match=rf"Service\.{method}\(\) called exit_actor\(\)"):
        kernel.get(leaving, timeout=SECONDS)
    assert kernel.get(beside) >= 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ActorDiedError, match="called exit_actor"):
        kernel.get(service.nap.remote(0))


@pytest.mark.parametrize("method", ["leave", "leave_plainly", "leave_later"])
def test_leaving_does_not_wait_for_ever_for_the_calls_beside_it(method: str, tmp_path: Path) -> None:
    service = Service.remote()
    path = tmp_path / "outcome"
    endless = service.never_ends.remote(str(path))
    pid = kernel.get(service.pid.remote())
    leaving = getattr(service, method).remote()
    for ref in (endless, leaving) if method != "leave_later" else (endless,):
        with pytest.raises(ActorDiedError, match=r"called exit_actor\(\)"):
            kernel.get(ref, timeout=SECONDS)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert path.read_text() == "cleaned up", "coroutines are cancelled before the end"


def test_terminate_and_last_handle_end_it(eventually: Callable[..., Any]) -> None:
    def gone(pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            return False
        return True

    service = Service.remote()
    pid = kernel.get(service.pid.remote())
    service.__kernel_terminate__.remote()
    eventually(lambda: gone(pid))
    other = Service.remote()
    pid = kernel.get(other.pid.remote())
    last = other.nap.remote(0.2)
    del other
    assert kernel.get(last) == 1
    eventually(lambda: gone(pid))


def test_crash_fails_every_coroutine_and_restarts() -> None:
    service = Service.options(max_restarts=1).remote()
    naps = [service.nap.remote(600) for _ in range(5)]
    kernel.get(service.pid.remote())
    service.crash.remote()
    for nap in naps:
        with pytest.raises(ActorUnavailableError, match="exit code 4"):
            kernel.get(nap, timeout=SECONDS)
    assert kernel.get(service.nap.remote(0), timeout=SECONDS) == 1


def test_each_coroutine_knows_its_own_call() -> None:
    service = Service.remote()
    told = kernel.get([service.name_of_call.remote() for _ in range(5)])
    assert len({task for task, _ in told}) == 5
    assert {name for _, name in told} == {"Service.name_of_call"}


def test_blocking_get_on_the_loop_works_but_warns(capfd: pytest.CaptureFixture[str], eventually: Any) -> None:
    service = Service.remote()
    assert kernel.get(service.block_the_loop.remote()) == 8
    seen: list[str] = []

    def warned() -> bool:
        captured = capfd.readouterr()
        seen.append(captured.out + captured.err)
        return "kernel.get() in a coroutine blocks its event loop" in "".join(seen)

    eventually(warned)


def test_constructor_may_block_and_use_the_loop(capfd: pytest.CaptureFixture[str]) -> None:
    @kernel.remote
    class Ticker:
        def __init__(self) -> None:
            self.start = kernel.get(double.remote(5))
            self.ticks = 0
            self.task = asyncio.get_running_loop().create_task(self.tick())

        async def tick(self) -> None:
            while True:
                self.ticks += 1
                await asyncio.sleep(0.01)

        async def read(self) -> tuple[int, int]:
            before = self.ticks
            while self.ticks < before + 2:
                await asyncio.sleep(0.01)
            return self.start, self.ticks

    start, ticks = kernel.get(Ticker.remote().read.remote(), timeout=SECONDS)
    assert start == 10 and ticks >= 2
    assert "blocks its event loop" not in capfd.readouterr().err


def test_async_actors_call_each_other_and_themselves() -> None:
    @kernel.remote
    class Node:
        def __init__(self, number: int) -> None:
            self.number = number
            self.next: Any = None

        async def join(self, other: Any) -> None:
            self.next = other

        async def around(self, hops: int) -> list[int]:
            if not hops:
                return [self.number]
            return [self.number, *await self.next.around.remote(hops - 1)]

    nodes = [Node.remote(number) for number in range(3)]
    kernel.get([node.join.remote(nodes[(number + 1) % 3]) for number, node in enumerate(nodes)])
    assert kernel.get(nodes[0].around.remote(7), timeout=SECONDS) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_async_methods_are_inherited_and_large_values_travel() -> None:
    import numpy as np

    class Base:
        async def scale(self, array: np.ndarray) -> np.ndarray:
            await asyncio.sleep(0)
            return array * 2

    @kernel.remote
    class Derived(Base):
        pass

    array = np.arange(300_000)
    assert (kernel.get(Derived.remote().scale.remote(kernel.put(array))) == array * 2).all()


def test_async_function_is_refused() -> None:
    async def task() -> None:
        return None

    with pytest.raises(kernel.exceptions.UsageError, match="which only actors run"):
        kernel.remote(task)
