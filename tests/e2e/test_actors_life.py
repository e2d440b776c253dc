"""How actors end and come back: handles, kill, exit, restarts, retries, deaths of processes."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    OwnerDiedError,
)
from kernel.runtime.current import get_runtime
from kernel.testing.constants import constants

pytestmark = pytest.mark.usefixtures("session")

SECONDS = 120.0


@kernel.remote
def add(one: int, other: int) -> int:
    return one + other


@kernel.remote
class Worker:
    """Does what it is told, and leaves lines in files when it ends in order; its destructor may use the session."""

    def __init__(self, exits: str = "", left: str = "") -> None:
        if exits:
            import atexit

            atexit.register(lambda: Path(exits).write_text(f"left {os.getpid()}"))
        self.count = 0
        self.left = left

    def __del__(self) -> None:
        if self.left:
            Path(self.left).write_text(f"{kernel.get(add.remote(self.count, 1))}")

    def increment(self) -> int:
        self.count += 1
        return self.count

    def pid(self) -> int:
        return os.getpid()

    def nap(self, seconds: float) -> str:
        time.sleep(seconds)
        return "rested"

    def append(self, path: str, line: str, seconds: float = 0.0) -> None:
        time.sleep(seconds)
        with open(path, "a") as file:
            file.write(line)

    def leave(self) -> None:
        kernel.exit_actor()

    def system_exit(self, code: int) -> None:
        sys.exit(code)

    def crash(self, how: str) -> None:
        if how == "exit":
            os._exit(7)
        if how == "segfault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def restarted(self) -> bool:
        return kernel.get_runtime_context().was_current_actor_reconstructed


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def restarts(handle: Any) -> int:
    [row] = [row for row in get_runtime().query("actors") if row["actor_id"] == handle._actor_id.hex()]
    return int(row["restarts"])


# -- handles -----------------------------------------------------------------------------------------------------------


def test_actor_ends_with_its_last_handle(eventually: Callable[..., Any], tmp_path: Path) -> None:
    exits = tmp_path / "exits"
    worker = Worker.remote(str(exits))
    pid = kernel.get(worker.pid.remote())
    copy = kernel.get(kernel.put(worker))
    del worker
    assert kernel.get(copy.pid.remote()) == pid
    del copy
    eventually(lambda: not alive(pid))
    assert exits.read_text() == f"left {pid}"


def test_calls_that_were_made_are_finished_first(eventually: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    worker = Worker.remote()
    for number in range(5):
        worker.append.remote(str(path), f"{number}", 0.03)
    del worker
    eventually(lambda: path.exists() and path.read_text() == "01234")


def test_task_that_holds_a_handle_keeps_the_actor(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    def hold(worker: Any) -> int:
        time.sleep(0.4)
        return kernel.get(worker.pid.remote())

    worker = Worker.remote()
    pid = kernel.get(worker.pid.remote())
    ref = hold.remote(worker)
    del worker
    assert kernel.get(ref) == pid
    eventually(lambda: not alive(pid))


def test_handle_inside_a_stored_object_keeps_the_actor(eventually: Callable[..., Any]) -> None:
    worker = Worker.remote()
    pid = kernel.get(worker.pid.remote())
    ref = kernel.put({"worker": worker})
    del worker
    assert kernel.get(kernel.get(ref)["worker"].pid.remote()) == pid
    del ref
    eventually(lambda: not alive(pid))


def test_calls_left_by_the_last_holder_are_made_though_their_arguments_come_late(
    eventually: Callable[..., Any], tmp_path: Path
) -> None:
    @kernel.remote
    def slowly(value: str) -> str:
        time.sleep(0.2)
        return value

    @kernel.remote
    def leave_calls(holder: list[Any], path: str) -> None:
        holder[0].append.remote(path, slowly.remote("late"))
        holder[0].append.remote(path, " and last")

    path = tmp_path / "lines"
    worker = Worker.remote()
    pid = kernel.get(worker.pid.remote())
    kernel.get(leave_calls.remote([worker], str(path)))
    del worker
    eventually(lambda: not alive(pid))
    assert path.read_text() == "late and last"


def test_actor_ends_with_the_process_that_made_it(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    def make() -> tuple[Any, int]:
        return Worker.remote(), os.getpid()

    worker, creator = kernel.get(make.remote())
    pid = kernel.get(worker.pid.remote())
    os.kill(creator, signal.SIGKILL)
    eventually(lambda: not alive(pid))
    with pytest.raises(ActorDiedError, match="the process that created it ended"):
        kernel.get(worker.pid.remote(), timeout=SECONDS)


def test_children_end_with_the_actor_that_made_them(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Parent:
        def __init__(self) -> None:
            self.child = Worker.remote()

        def pids(self) -> list[int]:
            return [os.getpid(), kernel.get(self.child.pid.remote())]

    parent = Parent.remote()
    pids = kernel.get(parent.pids.remote())
    kernel.kill(parent)
    eventually(lambda: not any(alive(pid) for pid in pids))


def test_actor_with_objects_and_endless_tasks_of_its_own_still_ends(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Owner:
        def __init__(self) -> None:
            self.kept = [kernel.put(b"x" * 1_000_000)]
            self.sleeper = Worker.remote()
            self.endless = self.sleeper.nap.remote(1000)

        def pid(self) -> int:
            return os.getpid()

    owner = Owner.remote()
    pid = kernel.get(owner.pid.remote())
    del owner
    eventually(lambda: not alive(pid))


# -- kill --------------------------------------------------------------------------------------------------------------


def test_kill_fails_what_runs_and_what_waits_and_runs_nothing_any_more(
    eventually: Callable[..., Any], tmp_path: Path, fresh_session: Callable[..., Any]
) -> None:
    with constants({"kernel_processes.node.worker_control.GRACE_SECONDS": SECONDS}):  # usually two seconds
        fresh_session()
    exits, left = tmp_path / "exits", tmp_path / "left"
    worker = Worker.options(name="to be killed").remote(str(exits), str(left))
    pid = kernel.get(worker.pid.remote())
    calls = [worker.nap.remote(600), worker.pid.remote()]
    kernel.kill(worker)
    for call in calls:
        with pytest.raises(ActorDiedError, match=r"it was killed by kernel\.kill\(actor\)"):
            kernel.get(call, timeout=SECONDS)
    with pytest.raises(ActorDiedError, match=r"Worker\.increment\(\) failed .* is dead: it was killed"):
        kernel.get(worker.increment.remote(), timeout=SECONDS)
    other = Worker.options(name="to be killed").remote()
    assert kernel.get(other.pid.remote()) != pid
    eventually(lambda: not alive(pid))
    assert not exits.exists() and not left.exists()
    idle = Worker.options(max_restarts=1).remote(str(exits), str(left))
    pid = kernel.get(idle.pid.remote())
    kernel.kill(idle, no_restart=False)
    eventually(lambda: not alive(pid))
    assert not exits.exists() and not left.exists()
    kernel.kill(idle)
    kernel.kill(other)


def test_kill_reaches_an_actor_that_does_not_listen(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Deaf:
        def pid(self) -> int:
            return os.getpid()

        def hold_everything(self) -> None:
            re.match(r"(a+)+$", "a" * 40 + "b")  # keeps the interpreter to itself, for ages

    deaf = Deaf.remote()
    pid = kernel.get(deaf.pid.remote())
    deaf.hold_everything.remote()
    kernel.kill(deaf)
    eventually(lambda: not alive(pid))


def test_kill_before_it_lives() -> None:
    @kernel.remote
    class Slow:
        def __init__(self) -> None:
            time.sleep(600)

        def ok(self) -> bool:
            return True

    slow = Slow.remote()
    ref = slow.ok.remote()
    kernel.kill(slow)
    with pytest.raises(ActorDiedError, match="killed"):
        kernel.get(ref, timeout=SECONDS)


def test_kill_that_allows_a_restart() -> None:
    worker = Worker.options(max_restarts=1).remote()
    first = kernel.get(worker.pid.remote())
    kernel.kill(worker, no_restart=False)
    second = _get_again(worker.pid)
    assert second != first
    assert kernel.get(worker.restarted.remote())
    kernel.kill(worker)
    with pytest.raises(ActorDiedError):
        kernel.get(worker.pid.remote())


def _get_again(method: Any, timeout: float = SECONDS) -> Any:
    """Call until the actor is there again."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return kernel.get(method.remote(), timeout=timeout)
        except ActorUnavailableError:
            assert time.monotonic() < deadline


# -- destructors -------------------------------------------------------------------------------------------------------


class Leaver(Worker._cls):  # type: ignore[name-defined,misc]
    """Ends as the test says. In a cycle: its destructor runs only when that is found."""

    def __init__(self, exits: str, left: str) -> None:
        super().__init__(exits, left)
        self.itself = self

    def end_process(self) -> None:
        sys.exit(0)


class AsyncLeaver(Leaver):
    async def increment(self) -> int:
        return super().increment()


class ThreadedLeaver(Leaver):
    """With more threads."""


def _drop(handles: list[Any]) -> None:
    handles.clear()


ENDS: dict[str, Callable[[list[Any]], object]] = {
    "the last handle goes": _drop,
    "exit_actor": lambda handles: handles[0].leave.remote(),
    "sys.exit": lambda handles: handles[0].end_process.remote(),
    "terminate": lambda handles: handles[0].__kernel_terminate__.remote(),
}


@pytest.mark.parametrize("cls", [Leaver, AsyncLeaver, ThreadedLeaver])
@pytest.mark.parametrize("end", ENDS)
def test_the_destructor_runs_when_an_actor_ends_in_order(
    cls: type, end: str, eventually: Callable[..., Any], tmp_path: Path
) -> None:
    exits, left = tmp_path / "exits", tmp_path / "left"
    actor_class: Any = kernel.remote(cls)
    options = {"max_concurrency": 4} if cls is ThreadedLeaver else {}
    handles = [actor_class.options(**options).remote(str(exits), str(left))]
    assert kernel.get([handles[0].increment.remote() for _ in range(3)][-1]) == 3
    pid = kernel.get(handles[0].pid.remote())
    ENDS[end](handles)
    eventually(lambda: not alive(pid))
    assert left.read_text() == "4", "the destructor may still use the session"
    assert exits.read_text() == f"left {pid}"


def test_the_destructor_runs_when_the_creator_is_gone(eventually: Callable[..., Any], tmp_path: Path) -> None:
    @kernel.remote
    class Creator:
        def create(self, left: str) -> int:
            self.worker = Worker.remote("", left)
            return int(kernel.get(self.worker.pid.remote()))

    left = tmp_path / "left"
    creator = Creator.remote()
    pid = kernel.get(creator.create.remote(str(left)))
    kernel.kill(creator)
    eventually(lambda: not alive(pid))
    assert left.read_text() == "1"


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_exit_actor_finishes_what_came_before_and_fails_the_rest(tmp_path: Path) -> None:
    exits, lines = tmp_path / "exits", tmp_path / "lines"
    worker = Worker.options(max_restarts=-1, max_task_retries=-1).remote(str(exits))
    pid = kernel.get(worker.pid.remote())
    before = [worker.append.remote(str(lines), f"{number}", 0.02) for number in range(3)]
    leaving, after = worker.leave.remote(), worker.increment.remote()
    message = r"it ended itself: Worker\.leave\(\) called exit_actor\(\)"
    with pytest.raises(ActorDiedError, match=message):
        kernel.get(leaving)
    assert not alive(pid), "the error tells that the process is gone"
    assert exits.read_text() == f"left {pid}"
    kernel.get(before)
    assert lines.read_text() == "012"
    with pytest.raises(ActorDiedError, match=message):
        kernel.get(after)
    with pytest.raises(ActorDiedError, match=message):
        kernel.get(worker.increment.remote())
    assert "called exit_actor()" in kernel.explain(worker)


def test_exit_actor_does_not_wait_for_ever_for_the_calls_beside_it(tmp_path: Path) -> None:
    exits = tmp_path / "exits"
    worker = Worker.options(max_concurrency=3).remote(str(exits))
    pid = kernel.get(worker.pid.remote())
    naps = [worker.nap.remote(3600), worker.nap.remote(0.2)]
    leaving = worker.leave.remote()
    for call in (leaving, naps[0]):
        with pytest.raises(ActorDiedError, match=r"called exit_actor\(\)"):
            kernel.get(call, timeout=SECONDS)
    assert kernel.get(naps[1]) == "rested", "what ends in time is not lost"
    assert exits.read_text() == f"left {pid}"


def test_exit_actor_works_in_a_thread_of_the_actors_own() -> None:
    @kernel.remote
    class Threaded:
        def leave_from_a_thread(self) -> None:
            import threading

            threading.Thread(target=kernel.exit_actor).start()

        def ok(self) -> bool:
            return True

    actor = Threaded.remote()
    actor.leave_from_a_thread.remote()
    deadline = time.monotonic() + SECONDS
    with pytest.raises(ActorDiedError, match=r"a thread of its own called exit_actor\(\)"):
        while time.monotonic() < deadline:
            kernel.get(actor.ok.remote(), timeout=SECONDS)


def test_terminate_is_queued_behind_the_calls(eventually: Callable[..., Any], tmp_path: Path) -> None:
    exits, lines = tmp_path / "exits", tmp_path / "lines"
    worker = Worker.options(max_restarts=-1).remote(str(exits))
    pid = kernel.get(worker.pid.remote())
    worker.append.remote(str(lines), "done", 0.1)
    worker.__kernel_terminate__.remote()
    eventually(lambda: not alive(pid))
    assert (lines.read_text(), exits.read_text()) == ("done", f"left {pid}")
    with pytest.raises(ActorDiedError, match="__kernel_terminate__"):
        kernel.get(worker.increment.remote())


@pytest.mark.parametrize(("leave", "said"), [(kernel.exit_actor, "exit_actor()"), (sys.exit, "sys.exit(None)")])
def test_exit_from_the_constructor(leave: Callable[[], None], said: str) -> None:
    @kernel.remote
    class Shy:
        def __init__(self) -> None:
            leave()

        def ok(self) -> bool:
            return True

    with pytest.raises(ActorDiedError, match=re.escape(f"Shy.__init__() called {said}")):
        kernel.get(Shy.remote().ok.remote())


@pytest.mark.parametrize("code", [0, 3])
def test_sys_exit_ends_the_actor_and_only_in_order_for_good(code: int) -> None:
    worker = Worker.options(max_restarts=1).remote()
    kernel.get(worker.pid.remote())
    with pytest.raises(ActorError) as caught:
        kernel.get(worker.system_exit.remote(code))
    if code:
        assert isinstance(caught.value, ActorUnavailableError)
        assert "exit code 3" in str(caught.value)
        assert kernel.get(worker.restarted.remote())
    else:
        assert isinstance(caught.value, ActorDiedError)
        assert "sys.exit(0)" in str(caught.value)


# -- death and restart -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [("exit", "exit code 7"), ("segfault", r"signal 11 \(SIGSEGV\)"), ("kill", r"signal 9 \(SIGKILL\)")],
)
def test_death_in_a_method_says_how_and_where(how: str, said: str) -> None:
    worker = Worker.remote()
    pid = kernel.get(worker.pid.remote())
    node = kernel.get_runtime_context().get_node_id()[:8]
    crash, behind = worker.crash.remote(how), worker.increment.remote()
    for call in (crash, behind):
        with pytest.raises(ActorDiedError, match=rf"{said}.*pid {pid}, node {node}"):
            kernel.get(call, timeout=SECONDS)
    with pytest.raises(ActorDiedError, match=rf"Worker\.increment\(\) failed .*{said}"):
        kernel.get(worker.increment.remote())


def test_restart_runs_the_constructor_again_and_fails_what_was_under_way() -> None:
    worker = Worker.options(max_restarts=2).remote()
    assert kernel.get([worker.increment.remote() for _ in range(3)]) == [1, 2, 3]
    for times in (1, 2):
        with pytest.raises(ActorUnavailableError, match=r"may or may not have run.*SIGKILL.*max_task_retries"):
            kernel.get(worker.crash.remote("kill"))
        assert kernel.get(worker.increment.remote()) == 1, "its state is new"
        assert kernel.get(worker.restarted.remote())
        assert restarts(worker) == times
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        kernel.get(worker.crash.remote("kill"))
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        kernel.get(worker.increment.remote())


def test_endless_restarts() -> None:
    worker = Worker.options(max_restarts=-1).remote()
    for _ in range(4):
        os.kill(_get_again(worker.pid), signal.SIGKILL)
    assert _get_again(worker.restarted)


def test_calls_wait_while_it_restarts() -> None:
    @kernel.remote(max_restarts=1)
    class Slow:
        def __init__(self) -> None:
            if kernel.get_runtime_context().was_current_actor_reconstructed:
                time.sleep(0.3)

        def pid(self) -> int:
            return os.getpid()

    slow = Slow.remote()
    first = kernel.get(slow.pid.remote())
    os.kill(first, signal.SIGKILL)
    assert _get_again(slow.pid) != first


def test_max_task_retries_makes_calls_again_in_order(tmp_path: Path) -> None:
    @kernel.remote(max_restarts=-1, max_task_retries=-1)
    class Fragile:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def once(self, mark: str) -> str:
            if not Path(mark).exists():
                Path(mark).touch()
                os._exit(1)
            return f"attempt {kernel.get_runtime_context().get_attempt_number()}"

        def note(self, number: int) -> list[int]:
            self.seen.append(number)
            return self.seen

    fragile = Fragile.remote()
    mark = str(tmp_path / "mark")
    first, *rest = [fragile.once.remote(mark), *(fragile.note.remote(number) for number in range(5))]
    assert kernel.get(first, timeout=SECONDS) == "attempt 1"
    assert kernel.get(rest[-1], timeout=SECONDS) == [0, 1, 2, 3, 4]


def test_task_retries_are_used_up() -> None:
    worker = Worker.options(max_restarts=-1, max_task_retries=2).remote()
    with pytest.raises(ActorUnavailableError, match="exit code 7"):
        kernel.get(worker.crash.remote("exit"), timeout=SECONDS)
    assert restarts(worker) == 3


def test_retry_exceptions_on_methods() -> None:
    @kernel.remote(max_task_retries=3)
    class Moody:
        def __init__(self) -> None:
            self.tries = 0

        @kernel.method(retry_exceptions=[ConnectionError])
        def sometimes(self, error: str) -> int:
            self.tries += 1
            if self.tries < 3:
                raise {"connection": ConnectionError, "value": ValueError}[error]("not yet")
            return self.tries

        def never(self) -> None:
            self.tries += 1
            raise ConnectionError("not yet")

        def count(self) -> int:
            return self.tries

    moody = Moody.remote()
    assert kernel.get(moody.sometimes.remote("connection")) == 3
    other = Moody.remote()
    with pytest.raises(ValueError, match="not yet"):
        kernel.get(other.sometimes.remote("value"))
    assert kernel.get(other.count.remote()) == 1
    with pytest.raises(ConnectionError):
        kernel.get(other.never.remote())
    assert kernel.get(other.count.remote()) == 2
    assert kernel.get(Moody.remote().sometimes.remote("connection")) == 3, "a chained handle waits for the retries"


def test_constructor_that_dies_says_so_and_restarts_as_allowed(tmp_path: Path) -> None:
    @kernel.remote
    class Fatal:
        def __init__(self, mark: str) -> None:
            if not Path(mark).exists():
                Path(mark).touch()
                os._exit(5)

        def ok(self) -> bool:
            return True

    with pytest.raises(ActorDiedError, match="exit code 5"):
        kernel.get(Fatal.remote(str(tmp_path / "a")).ok.remote(), timeout=SECONDS)
    again = Fatal.options(max_restarts=1).remote(str(tmp_path / "b"))
    assert kernel.get(again.ok.remote(), timeout=SECONDS)


def test_large_arguments_of_the_constructor_are_there_for_a_restart() -> None:
    import numpy as np

    @kernel.remote(max_restarts=1)
    class Holder:
        def __init__(self, first: Any, second: Any) -> None:
            self.total = int(first.sum() + second.sum())

        def read(self) -> tuple[int, int]:
            return self.total, os.getpid()

    holder = Holder.remote(kernel.put(np.ones(100_000)), np.ones(100_000))
    total, pid = kernel.get(holder.read.remote())
    os.kill(pid, signal.SIGKILL)
    again, other = _get_again(holder.read)
    assert again == total == 200_000 and other != pid


def test_objects_of_a_dead_actor_are_lost_with_a_reason(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Maker:
        def pid(self) -> int:
            return os.getpid()

        def make(self) -> list[Any]:
            return [kernel.put(b"y" * 500_000), kernel.put("small")]

    maker = Maker.remote()
    refs, pid = kernel.get([maker.make.remote(), maker.pid.remote()])
    kernel.kill(maker)
    eventually(lambda: not alive(pid))
    for ref in refs:
        with pytest.raises(OwnerDiedError, match="its owner, process"):
            kernel.get(ref, timeout=SECONDS)


def test_results_that_were_sent_survive_the_actor() -> None:
    @kernel.remote
    class Maker:
        def make(self) -> bytes:
            return b"z" * 500_000

    maker = Maker.remote()
    ref = maker.make.remote()
    kernel.wait([ref])
    kernel.kill(maker)
    assert len(kernel.get(ref)) == 500_000


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_results_that_were_sent_count_though_the_death_is_heard_of_first(how: str) -> None:
    @kernel.remote
    class Maker:
        def pid(self) -> int:
            return os.getpid()

        def make(self) -> bytes:
            return bytes(25_000)  # few enough for what a socket holds

        def leave(self) -> None:
            if how == "exit":
                kernel.exit_actor()
            get_runtime().io.write_out(SECONDS)  # type: ignore[attr-defined]  # what was made has left this process
            os.kill(os.getpid(), signal.SIGKILL)

    maker = Maker.remote()
    pid = kernel.get(maker.pid.remote())
    results = [maker.make.remote() for _ in range(3)]
    end = maker.leave.remote()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        kernel.wait(results, timeout=0)  # the calls have left
        deadline = time.monotonic() + SECONDS
        while ctypes.PyDLL(None).kill(pid, 0) == 0 and time.monotonic() < deadline:
            pass  # nothing is read meanwhile: no other thread of this process gets to run
    finally:
        sys.setswitchinterval(before)
    assert [len(value) for value in kernel.get(results)] == [25_000] * 3
    with pytest.raises(ActorDiedError):
        kernel.get(end)


def test_what_a_class_closes_over_lives_as_long_as_its_actor() -> None:
    def make() -> Any:
        ref = kernel.put("kept")

        @kernel.remote(max_restarts=1)
        class Reader:
            def read(self) -> tuple[str, int]:
                return kernel.get(ref), os.getpid()

        return Reader.remote()

    reader = make()
    gc.collect()
    value, pid = kernel.get(reader.read.remote())
    os.kill(pid, signal.SIGKILL)
    again, other = _get_again(reader.read)
    assert again == value == "kept" and other != pid
