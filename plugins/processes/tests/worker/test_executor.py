"""Executors: in which order what happens to a call is told, and what other threads may do to its queue meanwhile."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.definitions import STREAMING
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.tasks.tracing import CallTrace
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process import Process
from kernel_processes.worker.async_executor import AsyncExecutor
from kernel_processes.worker.executor import Executor
from kernel_processes.worker.lending import CpuLending
from kernel_spec.ids import ProcessId


class Runner:
    """Stands for `CallRunner`: hands out no arguments, but something to settle, and notes what is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.task = b""

    def arguments(self, connection: Any, arguments: Any, slots: Any) -> Any:
        return (), {}, Arrival(ProcessId(b"caller"), Waiter(1))

    def settle(self, arrival: Arrival | None) -> None:
        if arrival is not None and arrival.unsettled.remaining:
            arrival.unsettled.complete()
            self.told.append(("settled", b""))

    def send_result(self, connection: Any, task: bytes, returns: int, value: Any, name: str) -> None:
        self.told.append(("result", task))

    def send_item(self, connection: Any, task: bytes, index: int, value: Any, name: str) -> None:
        self.told.append(("item", task))

    def send_end(self, connection: Any, task: bytes) -> None:
        self.told.append(("end", task))

    def post_mortem(self, error: BaseException) -> BaseException:
        return error

    def send_failure(self, connection: Any, task: bytes, name: str, error: BaseException) -> None:
        self.told.append((type(error).__name__, task))

    def send_cancelled(self, connection: Any, task: bytes, name: str) -> None:
        self.told.append((f"{name} cancelled", task))

    def of(self, task: bytes) -> list[str]:
        """Return what was told of a call."""
        return [what for what, whose in self.told if whose == task]


class Caller:
    """A connection that keeps what is sent on it."""

    def __init__(self, closed: bool = False) -> None:
        self.closed = closed
        self.outbox: list[Any] = []

    def flush(self) -> None:
        return


def call(task: bytes, function: Callable[[], Any], returns: int = 1) -> tuple[Any, ...]:
    return (op.TASK, task, function, None, (), returns, None)


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    before = signal.getsignal(signal.SIGINT)
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    yield process
    process.interrupts.remove()
    process.reactor.close()
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def runner() -> Runner:
    return Runner()


def look_up(message: Any) -> tuple[Any, str]:
    return message[2], "f"


def make_executor(process: Process, runner: Runner, look_up: Any = look_up) -> Executor:
    runtime: Any = SimpleNamespace(io=process, trace=CallTrace())
    return Executor(runtime, runner, look_up, lambda message: "f")  # type: ignore[arg-type]


@pytest.fixture
def executor(process: Process, runner: Runner) -> Executor:
    return make_executor(process, runner)


def run(executor: Executor) -> None:
    """Run what waits."""

    def stop() -> None:
        executor.exit_reason = "that was all"

    executor.enqueue(Caller(), call(b"last", stop))  # type: ignore[arg-type]
    executor.run()


def fail() -> None:
    raise ValueError


def generate() -> Iterator[int]:
    yield 1


def generate_and_fail() -> Iterator[int]:
    yield 1
    raise ValueError


@pytest.mark.parametrize(
    ("function", "returns", "told"),
    [
        (int, 1, "result"),
        (fail, 1, "ValueError"),
        (generate, STREAMING, "end"),
        (generate_and_fail, STREAMING, "ValueError"),
    ],
)
@pytest.mark.parametrize("kind", [Executor, AsyncExecutor])
def test_nothing_ends_a_call_before_what_it_has_received_is_settled(
    process: Process, runner: Runner, kind: type, function: Any, returns: int, told: str
) -> None:
    message = call(b"task", function, returns)
    if kind is Executor:
        executor = make_executor(process, runner)
        executor.enqueue(Caller(), message)  # type: ignore[arg-type]
        run(executor)
    else:
        run_async(process, runner, [(Caller(), message)])
    so_far = [what for what, _ in runner.told[: runner.told.index((told, b"task"))] if what != "item"]
    assert so_far == ["settled"]


def run_async(process: Process, runner: Runner, calls: list[tuple[Any, Any]]) -> None:
    """Run calls, one after the other, in an async actor."""
    runtime: Any = SimpleNamespace(io=process, trace=CallTrace())
    executor = AsyncExecutor(runtime, runner, look_up, lambda message: "f", 1, {})  # type: ignore[arg-type]

    def construct() -> bool:
        for connection, message in calls:
            executor.enqueue(connection, message)
        executor.enqueue(Caller(), call(b"last", stop))  # type: ignore[arg-type]
        return True

    def stop() -> None:
        executor.exit_reason = "that was all"
        executor.wake()

    executor.run(construct)


def test_a_cancelled_call_is_settled_too(executor: Executor, runner: Runner) -> None:
    def cancelled() -> None:
        executor.cancel(b"task")
        signal.raise_signal(signal.SIGINT)

    executor.enqueue(Caller(), call(b"task", cancelled))  # type: ignore[arg-type]
    run(executor)
    assert runner.told[:2] == [("settled", b""), ("f cancelled", b"task")]


def test_an_interrupt_that_came_too_late_does_not_hit_the_next_call(
    process: Process, executor: Executor, runner: Runner
) -> None:
    class Dropped:
        def __del__(self) -> None:
            executor.cancel(b"first")
            signal.raise_signal(signal.SIGINT)

    def interrupted_late() -> None:
        dropped = Dropped()  # noqa: F841  (it goes as this returns, and nothing interrupts a destructor)

    executor.enqueue(Caller(), call(b"first", interrupted_late))  # type: ignore[arg-type]
    executor.enqueue(Caller(), call(b"second", process.raise_interrupt))  # type: ignore[arg-type]
    run(executor)
    assert (runner.of(b"first"), runner.of(b"second")) == (["result"], ["result"])


# -- what others do to the queue ---------------------------------------------------------------------------------------


def test_calls_of_a_caller_that_is_gone_are_not_begun(executor: Executor, runner: Runner) -> None:
    begun: list[str] = []
    executor.enqueue(Caller(closed=True), call(b"gone", lambda: begun.append("gone")))  # type: ignore[arg-type]
    executor.enqueue(Caller(), call(b"here", lambda: begun.append("here")))  # type: ignore[arg-type]
    run(executor)
    assert begun == ["here"]


def test_an_async_actor_begins_no_call_of_a_caller_that_is_gone(process: Process, runner: Runner) -> None:
    begun: list[str] = []
    calls = [
        (Caller(closed=True), call(b"gone", lambda: begun.append("gone"))),
        (Caller(), call(b"here", lambda: begun.append("here"))),
    ]
    run_async(process, runner, calls)
    assert begun == ["here"]


class Id(bytes):
    """A task's id; comparing it lets another thread have its turn."""

    others_turn: Callable[[], Any]

    def __eq__(self, other: object) -> bool:
        self.others_turn()
        return bytes(self) == other

    __hash__ = bytes.__hash__


def test_calls_begin_while_one_that_waits_is_looked_for(executor: Executor, runner: Runner) -> None:
    first = Id(b"first")
    first.others_turn = lambda: executor.main.queue and executor.main.queue[0][1][1] is first and begin()
    begin = executor.main.queue.popleft
    for task in (first, b"second", b"third"):
        executor.enqueue(Caller(), call(task, int))  # type: ignore[arg-type]
    executor.cancel(b"third")
    assert runner.told == [("f cancelled", b"third")]
    assert [message[1] for _, message in executor.main.queue] == [b"second"]


def test_a_call_that_is_cancelled_as_it_leaves_the_queue_does_not_run(executor: Executor, runner: Runner) -> None:
    ran: list[bool] = []
    executor.enqueue(Caller(), call(b"task", lambda: ran.append(True)))  # type: ignore[arg-type]
    popleft = executor.main.queue.popleft

    class Queue(deque[Any]):
        def popleft(self) -> Any:
            taken = super().popleft()
            executor.cancel(b"task")
            return taken

    executor.main.queue = Queue([popleft()])
    run(executor)
    assert runner.of(b"task") == ["f cancelled"]
    assert not ran
    assert not executor.running


def test_cancelling_what_waits_runs_no_code_of_the_user(process: Process, runner: Runner) -> None:
    executor = make_executor(process, runner, look_up=lambda message: pytest.fail("it was read"))
    executor.enqueue(Caller(), call(b"task", int))  # type: ignore[arg-type]
    executor.cancel(b"task")
    assert runner.told == [("f cancelled", b"task")]


def test_the_last_call_may_begin_while_the_others_are_given_back(executor: Executor) -> None:
    class Queue(deque[Any]):
        def pop(self) -> Any:  # type: ignore[override]
            taken = super().pop()
            if len(self) == 1:
                self.clear()  # another thread has begun it
            return taken

        def __bool__(self) -> bool:
            return True  # it looked as if there was one left

    caller = Caller()
    executor.main.queue = Queue()
    for task in (b"first", b"second", b"third"):
        executor.enqueue(caller, call(task, int))  # type: ignore[arg-type]
    executor.give_back()
    assert caller.outbox == [(op.RETURNED, [b"second", b"third"])]
    assert len(executor.main.queue) == 0


# -- blocking ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_of_a_generator_strikes_between_its_items(
    process: Process, executor: Executor, runner: Runner
) -> None:
    class Whole(Caller):
        """Is cancelled amid a flush."""

        def flush(self) -> None:
            executor.cancel(b"task")
            process.interrupts._kept[threading.get_ident()] = KeyboardInterrupt()

    def endless() -> Iterator[int]:
        while True:
            yield 1
            process._dirty.add(Whole())  # type: ignore[arg-type]

    executor.enqueue(Caller(), call(b"task", endless, STREAMING))  # type: ignore[arg-type]
    run(executor)
    assert runner.of(b"task")[-1] == "f cancelled"


def test_the_agent_hears_of_blocking_in_the_order_in_which_it_happens(process: Process, executor: Executor) -> None:
    class Lock:
        """Is taken by another thread first, once."""

        first: Callable[[], Any] | None = None

        def __enter__(self) -> None:
            first, self.first = self.first, None
            if first is not None:
                first()

        def __exit__(self, *raised: Any) -> None:
            return

    nobody: Any = None
    lending = CpuLending(process, nobody, executor, lambda: False, lambda: False)
    agent = process.agent = Caller()  # type: ignore[assignment]
    lock = process.lock = Lock()  # type: ignore[assignment]
    executor.running[0] = b"task"
    lending.before_block()
    lock.first = lending.before_block
    lending.after_block()
    assert agent.outbox == [(op.BLOCKED,)]
    lending.after_block()
    assert agent.outbox == [(op.BLOCKED,), (op.UNBLOCKED, False)]


def test_a_result_does_not_wait_for_the_call_behind_it(
    process: Process, runner: Runner, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_its_way: list[list[str]] = []
    for way in ("flush_soon", "_flush"):
        monkeypatch.setattr(process.pump, way, lambda: on_its_way.append(runner.of(b"quick") + runner.of(b"last")))
    monkeypatch.setattr(process, "flush", process.pump._flush)
    executor.enqueue(Caller(), call(b"quick", lambda: None))  # type: ignore[arg-type]
    run(executor)
    assert ["result"] in on_its_way  # when that of the last one was not there yet
