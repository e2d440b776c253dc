"""Threaded actors, concurrency groups, and cancelling actor calls."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.exceptions import ActorDiedError, OptionError, TaskCancelledError, UsageError
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")

SECONDS = 120.0


@kernel.remote(max_concurrency=8)
class Meeting:
    """Calls that can only end together."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.event = threading.Event()
        self.active = 0
        self.most = 0
        self.lock = threading.Lock()

    def meet(self) -> int:
        self.barrier.wait(SECONDS)
        return threading.get_ident()

    def wait(self) -> bool:
        return self.event.wait(SECONDS)

    def set(self) -> None:
        self.event.set()

    def nap(self, seconds: float, together: bool = False) -> int:
        with self.lock:
            self.active += 1
            self.most = max(self.most, self.active)
        if together:
            self.barrier.wait(SECONDS)
        time.sleep(seconds)
        with self.lock:
            self.active -= 1
        return self.most

    def leave(self) -> None:
        kernel.exit_actor()

    def spin(self, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            sum(range(1000))
        return "spun"

    def pid(self) -> int:
        return os.getpid()


# -- threads -----------------------------------------------------------------------------------------------------------


def test_calls_run_at_once_and_wait_for_each_other() -> None:
    meeting = Meeting.remote(8)
    assert len(set(kernel.get([meeting.meet.remote() for _ in range(8)], timeout=SECONDS))) == 8


def test_call_unblocks_an_earlier_one() -> None:
    meeting = Meeting.remote(1)
    waiting = [meeting.wait.remote() for _ in range(7)]
    meeting.set.remote()
    assert kernel.get(waiting, timeout=SECONDS) == [True] * 7


def test_never_more_at_once_than_allowed() -> None:
    meeting = Meeting.options(max_concurrency=3).remote(3)
    assert max(kernel.get([meeting.nap.remote(0.1, True) for _ in range(9)], timeout=SECONDS)) == 3


def test_one_at_a_time_unless_told_otherwise() -> None:
    meeting = Meeting.options(max_concurrency=1).remote(1)
    assert set(kernel.get([meeting.nap.remote(0.02) for _ in range(5)])) == {1}


def test_many_quick_calls_of_a_threaded_actor() -> None:
    meeting = Meeting.remote(1)
    assert len(kernel.get([meeting.pid.remote() for _ in range(2000)])) == 2000


def test_leaving_lets_the_threads_beside_it_finish() -> None:
    meeting = Meeting.remote(1)
    pid = kernel.get(meeting.pid.remote())
    beside = meeting.nap.remote(0.4)
    leaving = meeting.leave.remote()
    with pytest.raises(ActorDiedError, match=r"Meeting\.leave\(\) called exit_actor\(\)"):
        kernel.get(leaving, timeout=SECONDS)
    assert kernel.get(beside) >= 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_threads_of_an_actor_call_others_and_wait() -> None:
    @kernel.remote
    def double(x: int) -> int:
        return 2 * x

    @kernel.remote(max_concurrency=4)
    class Caller:
        def call(self, x: int) -> int:
            return kernel.get(double.remote(kernel.get(double.remote(x))))

    caller = Caller.remote()
    found = kernel.get([caller.call.remote(number) for number in range(20)], timeout=SECONDS)
    assert found == [4 * number for number in range(20)]


def test_thread_started_by_a_method_uses_the_api(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    def double(x: int) -> int:
        return 2 * x

    @kernel.remote
    class Background:
        def __init__(self) -> None:
            self.found: list[int] = []

        def work(self) -> None:
            threading.Thread(target=lambda: self.found.append(kernel.get(double.remote(4)))).start()

        def read(self) -> list[int]:
            return self.found

    background = Background.remote()
    kernel.get(background.work.remote())
    assert eventually(lambda: kernel.get(background.read.remote())) == [8]


# -- concurrency groups ------------------------------------------------------------------------------------------------


@kernel.remote(concurrency_groups={"io": 2, "health": 1})
class Grouped:
    def __init__(self) -> None:
        self.open = threading.Event()
        self.active = 0
        self.most = 0

    @kernel.method(concurrency_group="io")
    def fetch(self) -> bool:
        self.active += 1
        self.most = max(self.most, self.active)
        found = self.open.wait(SECONDS)
        self.active -= 1
        return found

    @kernel.method(concurrency_group="health")
    def healthy(self) -> bool:
        return True

    def compute(self) -> bool:
        return self.open.wait(SECONDS)

    def release(self) -> None:
        self.open.set()

    def read(self) -> int:
        return self.most


def test_groups_do_not_hold_each_other_up() -> None:
    grouped = Grouped.remote()
    stuck = [*(grouped.fetch.remote() for _ in range(5)), grouped.compute.remote()]
    assert kernel.get([grouped.healthy.remote() for _ in range(10)], timeout=SECONDS) == [True] * 10
    grouped.release.options(concurrency_group="health").remote()
    assert kernel.get(stuck, timeout=SECONDS) == [True] * 6
    assert kernel.get(grouped.read.remote()) == 2


@pytest.mark.parametrize("waits_in", ["one", ""])
def test_async_groups_do_not_hold_each_other_up(waits_in: str, eventually: Callable[..., Any]) -> None:
    import asyncio

    @kernel.remote(concurrency_groups={"one": 1, "other": 2})
    class Async:
        def __init__(self) -> None:
            self.event = asyncio.Event()
            self.active = 0

        async def wait_in_main(self) -> int:
            return await self.wait()

        @kernel.method(concurrency_group="other")
        async def is_waiting(self) -> bool:
            return self.active > 0

        @kernel.method(concurrency_group="one")
        async def wait(self) -> int:
            self.active += 1
            most = self.active
            await self.event.wait()
            self.active -= 1
            return most

        @kernel.method(concurrency_group="other")
        async def set(self) -> None:
            self.event.set()

    actor = Async.remote()
    if waits_in:
        waiting = [actor.wait.remote() for _ in range(3)]
    else:
        waiting = [actor.wait_in_main.remote()]
    eventually(lambda: kernel.get(actor.is_waiting.remote()))
    actor.set.remote()
    assert kernel.get(waiting, timeout=SECONDS) == [1] * len(waiting)


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(OptionError, match=r"Grouped\.fetch\(\) belongs to concurrency group 'io'.*did you mean 'i0'"):
        Grouped.options(concurrency_groups={"i0": 1, "health": 1}).remote()
    grouped = Grouped.remote()
    with pytest.raises(OptionError, match="in concurrency group 'helth'; Grouped has io, health"):
        kernel.get(grouped.read.options(concurrency_group="helth").remote())
    with pytest.raises(OptionError, match="concurrency_groups must be"):
        Grouped.options(concurrency_groups={"io": 0})


# -- cancelling --------------------------------------------------------------------------------------------------------


@kernel.remote
class Sleeper:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def nap(self, seconds: float, mark: str = "") -> str:
        self.outcomes.append("started")
        try:
            if mark:
                Path(mark).touch()
            time.sleep(seconds)
        except KeyboardInterrupt:
            self.outcomes.append("interrupted")
            raise
        return "rested"

    def nap_until(self, mark: Path) -> str:
        self.outcomes.append("started")
        wait_until(mark.exists, SECONDS, "the end of the nap")
        return "rested"

    def get(self, refs: list[Any], mark: str) -> Any:
        Path(mark).touch()
        return kernel.get(refs[0])

    def note(self, text: str) -> None:
        self.outcomes.append(text)

    def read(self) -> list[str]:
        return self.outcomes


@kernel.remote
def slowly(seconds: float) -> None:
    time.sleep(seconds)


def test_waiting_call_is_cancelled_and_never_runs(tmp_path: Path) -> None:
    sleeper = Sleeper.remote()
    first = sleeper.nap_until.remote(tmp_path / "over")
    waiting = sleeper.note.remote("never")
    late = sleeper.note.remote(slowly.remote(0.2))
    kernel.cancel(waiting)
    kernel.cancel(late)
    for ref in (waiting, late):
        with pytest.raises(TaskCancelledError, match=r"Sleeper\.note\(\)"):
            kernel.get(ref, timeout=SECONDS)
    (tmp_path / "over").touch()
    assert kernel.get(first) == "rested"
    assert kernel.get(sleeper.read.remote()) == ["started"]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file by which a call says that it has started."""
    return tmp_path / "started"


def test_running_call_is_interrupted_and_the_actor_lives_on(eventually: Callable[..., Any], mark: Path) -> None:
    sleeper = Sleeper.remote()
    running, behind = sleeper.nap.remote(600, str(mark)), sleeper.nap.remote(0)
    eventually(mark.exists)
    kernel.cancel(running)
    with pytest.raises(TaskCancelledError, match=r"Sleeper\.nap\(\)"):
        kernel.get(running, timeout=SECONDS)
    assert kernel.get(behind, timeout=SECONDS) == "rested"
    assert kernel.get(sleeper.read.remote()) == ["started", "interrupted", "started"]


def test_call_blocked_in_get_is_cancelled(eventually: Callable[..., Any], mark: Path) -> None:
    sleeper = Sleeper.remote()
    never = slowly.remote(600)
    ref = sleeper.get.remote([never], str(mark))
    eventually(mark.exists)
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(sleeper.read.remote(), timeout=SECONDS) == []
    kernel.cancel(never)


def test_call_in_another_thread_is_interrupted() -> None:
    meeting = Meeting.remote(1)
    kernel.get(meeting.pid.remote())
    spinning = [meeting.spin.remote(600) for _ in range(3)]
    assert kernel.get(meeting.pid.remote(), timeout=SECONDS)
    for ref in spinning:
        kernel.cancel(ref)
    for ref in spinning:
        with pytest.raises(TaskCancelledError):
            kernel.get(ref, timeout=SECONDS)
    assert len(kernel.get([meeting.pid.remote() for _ in range(20)], timeout=SECONDS)) == 20


def test_cancelling_a_call_that_reads_the_messages_loses_no_call_behind_it(
    eventually: Callable[..., Any], tmp_path: Path
) -> None:
    @kernel.remote(max_concurrency=4)
    class Waiting:
        def nap(self, seconds: float, mark: str) -> None:
            Path(mark).touch()
            time.sleep(seconds)

        def get(self, refs: list[Any], mark: str) -> Any:
            Path(mark).touch()
            return kernel.get(refs[0])

        def echo(self, value: int) -> int:
            return value

    never = slowly.remote(600)
    waiting = Waiting.remote()
    napping = waiting.nap.remote(1.0, str(tmp_path / "napping"))  # in the main thread, so that the next one polls
    eventually((tmp_path / "napping").exists)
    stuck = waiting.get.remote([never], str(tmp_path / "stuck"))
    eventually((tmp_path / "stuck").exists)
    kernel.cancel(stuck)
    quick = [waiting.echo.remote(value) for value in range(20)]
    with pytest.raises(TaskCancelledError):
        kernel.get(stuck, timeout=SECONDS)
    assert kernel.get(quick, timeout=SECONDS) == list(range(20))
    kernel.get(napping)
    kernel.cancel(never)


def test_cancelling_by_force_is_refused_for_actor_calls(tmp_path: Path) -> None:
    sleeper = Sleeper.remote()
    ref = sleeper.nap_until.remote(tmp_path / "over")
    with pytest.raises(UsageError, match=r"can't end the actor call Sleeper\.nap_until\(\).*kernel\.kill\(actor\)"):
        kernel.cancel(ref, force=True)
    (tmp_path / "over").touch()
    assert kernel.get(ref) == "rested"


def test_cancelling_what_has_ended_changes_nothing() -> None:
    sleeper = Sleeper.remote()
    ref = sleeper.nap.remote(0)
    assert kernel.get(ref) == "rested"
    kernel.cancel(ref)
    assert kernel.get(ref) == "rested"


def test_call_of_another_process_is_cancelled_through_its_owner(eventually: Callable[..., Any], mark: Path) -> None:
    @kernel.remote
    class Holder:
        def __init__(self, sleeper: Any, mark: str) -> None:
            self.ref = sleeper.nap.remote(600, mark)

        def share(self) -> list[Any]:
            return [self.ref]

    sleeper = Sleeper.remote()
    holder = Holder.remote(sleeper, str(mark))
    [ref] = kernel.get(holder.share.remote())
    eventually(mark.exists)
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)


def test_cancelled_call_cancels_what_it_called(eventually: Callable[..., Any], mark: Path) -> None:
    @kernel.remote
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def run(self, mark: str) -> Any:
            return kernel.get(self.inner.nap.remote(600, mark))

    inner = Sleeper.remote()
    outer = Outer.remote(inner)
    ref = outer.run.remote(str(mark))
    eventually(mark.exists)
    kernel.cancel(ref)
    with pytest.raises(TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(inner.read.remote(), timeout=SECONDS) == ["started", "interrupted"]


def test_dropped_handle_of_cancelled_calls_still_ends_the_actor(eventually: Callable[..., Any]) -> None:
    meeting = Meeting.options(max_concurrency=1).remote(1)
    pid = kernel.get(meeting.pid.remote())
    ref = meeting.nap.remote(slowly.remote(60))
    kernel.cancel(ref)
    del meeting

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(gone)
