"""What user code may do to its process: fork, threads, subprocesses, ends of every kind, and long calls into C."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernel
from kernel.exceptions import ActorDiedError, NotInitializedError, WorkerDiedError
from kernel.testing.faults import wait_until
from kernel.testing.session import RunningSession, running_session

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 120.0


@pytest.fixture(scope="module")
def session() -> Iterator[RunningSession]:
    with running_session(num_cpus=2) as found:
        yield found


@kernel.remote
def double(x: int) -> int:
    return 2 * x


def check_health() -> None:
    """The session works: tasks, actors, large objects."""
    assert kernel.get([double.remote(i) for i in range(50)], timeout=SECONDS) == [2 * i for i in range(50)]
    assert kernel.get(kernel.put(np.ones(100_000))).sum() == 100_000


def exit_status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# -- fork ----------------------------------------------------------------------------------------------------------


def test_a_forked_child_may_exit_at_once(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def fork(n: int) -> list[int]:
        statuses = []
        for number in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(number)
            statuses.append(exit_status_of(pid))
        return [*statuses, kernel.get(double.remote(n))]

    assert kernel.get([fork.remote(i) for i in range(4)], timeout=SECONDS) == [[0, 1, 2, 3, 4, 2 * i] for i in range(4)]
    check_health()


def test_a_forked_child_that_returns_from_the_task_ends_quietly(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def fork() -> tuple[str, int]:
        pid = os.fork()
        if pid == 0:
            return ("child", 0)
        return ("parent", pid)

    who, child = kernel.get(fork.remote(), timeout=SECONDS)
    assert who == "parent"
    wait_until(lambda: not os.path.exists(f"/proc/{child}") or is_zombie(child), SECONDS, "the child's end")
    check_health()


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_forked_child_has_no_session(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def fork(kept: list) -> str:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                kernel.get(kept[0])
                os.write(writer, b"a value")
            except NotInitializedError as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            said = file.read()
        exit_status_of(pid)
        return said + str(kernel.get(kept[0]))

    assert "not initialized in this process" in kernel.get(fork.remote([kernel.put(7)]), timeout=SECONDS)
    check_health()


def test_a_child_that_lives_on_does_not_keep_a_dead_worker_alive(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def fork_and_die() -> None:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        os._exit(7)

    with pytest.raises(WorkerDiedError, match="exit code 7"):
        kernel.get(fork_and_die.remote(), timeout=SECONDS)  # long before the child ends
    check_health()


def test_multiprocessing_with_fork_inside_a_task(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def pool(n: int) -> list[int]:
        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, range(-n, 0))

    assert kernel.get([pool.remote(5), pool.remote(7)], timeout=SECONDS) == [[5, 4, 3, 2, 1], [7, 6, 5, 4, 3, 2, 1]]
    check_health()


def test_a_driver_that_forks_keeps_its_session(session: RunningSession) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        refs = [double.remote(i) for i in range(100)]
        assert pool.map(abs, range(-20, 0)) == list(range(20, 0, -1))
        assert kernel.get(refs, timeout=SECONDS) == [2 * i for i in range(100)]
    pid = os.fork()
    if pid == 0:
        kernel.shutdown()
        os._exit(0 if not kernel.is_initialized() else 1)
    assert exit_status_of(pid) == 0
    check_health()


def test_fork_while_other_threads_use_the_session(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def busy_fork() -> int:
        done = threading.Event()

        def work() -> None:
            while not done.is_set():
                kernel.get(kernel.put(np.ones(20_000)))

        thread = threading.Thread(target=work)
        thread.start()
        statuses = []
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                os._exit(3)
            statuses.append(exit_status_of(pid))
        done.set()
        thread.join()
        return statuses.count(3)

    assert kernel.get(busy_fork.remote(), timeout=SECONDS) == 30
    check_health()


def test_fork_in_an_async_actor(session: RunningSession) -> None:
    @kernel.remote
    class Forker:
        async def fork(self, comes_back: bool) -> str:
            pid = os.fork()
            if pid == 0:
                if comes_back:
                    return "child"
                os._exit(0)
            await asyncio.sleep(0)
            return f"parent {exit_status_of(pid)}"

        async def ping(self) -> str:
            await asyncio.sleep(0.01)
            return "pong"

    forker = Forker.remote()
    for comes_back in (False, True):
        calls = [forker.ping.remote(), forker.fork.remote(comes_back), forker.ping.remote()]
        assert kernel.get(calls, timeout=SECONDS) == ["pong", "parent 0", "pong"]
    assert kernel.get(forker.ping.remote(), timeout=SECONDS) == "pong"


# -- threads and subprocesses --------------------------------------------------------------------------------------


def test_threads_of_a_task_may_use_the_session(session: RunningSession) -> None:
    @kernel.remote
    def spread() -> list[int]:
        found: list[int] = []
        threads = [threading.Thread(target=lambda n=n: found.append(kernel.get(double.remote(n)))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    assert kernel.get([spread.remote() for _ in range(3)], timeout=SECONDS) == [[2 * n for n in range(8)]] * 3


def test_subprocesses_of_a_task_get_no_token_and_no_descriptors(session: RunningSession) -> None:
    @kernel.remote
    def look() -> tuple[str, str, str]:
        script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        descriptors = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, close_fds=False)
        environment = subprocess.run(["env"], capture_output=True, text=True)
        return descriptors.stdout.strip(), environment.stdout, Path("/proc/self/environ").read_bytes().decode()

    @kernel.remote
    def use_store() -> np.ndarray:
        return np.ones(1 << 20)

    kernel.get([use_store.remote() for _ in range(4)], timeout=SECONDS)
    descriptors, environment, own = kernel.get(look.remote(), timeout=SECONDS)
    assert descriptors == "['0', '1', '2', '3']", "3 is the listed folder itself"
    token = Path(session.directory, "token").read_text()
    assert token not in environment and token not in own


# -- ends ----------------------------------------------------------------------------------------------------------


@kernel.remote(max_retries=0)
def end(how: str) -> None:
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "abort":
        os.abort()
    elif how == "os._exit":
        os._exit(3)
    elif how == "sys.exit":
        sys.exit(4)
    elif how == "kill":
        os.kill(os.getpid(), 9)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("segfault", r"signal 11 \(SIGSEGV\)(.|\n)*stderr(.|\n)*string_at|SIGSEGV(.|\n)*end"),
        ("abort", r"signal 6 \(SIGABRT\)"),
        ("os._exit", "exit code 3"),
        ("sys.exit", r"sys\.exit\(4\)"),
        ("kill", r"signal 9 \(SIGKILL\)"),
    ],
)
def test_every_end_is_named(session: RunningSession, how: str, words: str) -> None:
    with pytest.raises(WorkerDiedError, match=words) as caught:
        kernel.get(end.remote(how), timeout=SECONDS)
    assert "end()" in str(caught.value)
    check_health()


def test_an_actor_that_segfaults_says_so(session: RunningSession) -> None:
    @kernel.remote
    class Fragile:
        def crash(self) -> None:
            ctypes.string_at(0)

    with pytest.raises(ActorDiedError, match="SIGSEGV"):
        kernel.get(Fragile.remote().crash.remote(), timeout=SECONDS)
    check_health()


def test_a_crash_in_a_constructor_is_named(session: RunningSession) -> None:
    @kernel.remote
    class Fragile:
        def __init__(self) -> None:
            os._exit(5)

        def ping(self) -> None:
            pass

    with pytest.raises(ActorDiedError, match="exit code 5"):
        kernel.get(Fragile.remote().ping.remote(), timeout=SECONDS)


# -- the interpreter held for long ---------------------------------------------------------------------------------


def test_a_worker_in_a_long_call_into_c_holds_up_nobody_else(session: RunningSession, tmp_path: Path) -> None:
    path = tmp_path / "locked"

    @kernel.remote
    def hold() -> str:
        with open(path) as file:
            ctypes.PyDLL(None).flock(file.fileno(), fcntl.LOCK_EX)  # keeps the interpreter's lock meanwhile
        return "awake"

    @kernel.remote
    class Owner:
        def make(self) -> list:
            return [kernel.put(np.full(50_000, 3))]

        def hold(self) -> str:
            ctypes.PyDLL(None).sleep(2)
            return "awake"

    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        asleep = hold.remote()
        assert kernel.wait([asleep], timeout=0.3)[0] == []
        assert kernel.get([double.remote(i) for i in range(20)], timeout=SECONDS) == [2 * i for i in range(20)]
    assert kernel.get(asleep, timeout=SECONDS) == "awake"

    owner = Owner.remote()
    borrowed = kernel.get(owner.make.remote())[0]
    away = owner.hold.remote()
    assert kernel.get(borrowed, timeout=SECONDS).sum() == 150_000
    assert kernel.get(away, timeout=SECONDS) == "awake"
    check_health()


def test_a_driver_in_a_long_call_into_c_keeps_its_session() -> None:
    program = """
        import ctypes, kernel
        from kernel_processes.runtime import session_objects
        session_objects.PATIENCE_SECONDS = 600.0  # it would warn of what takes a few seconds
        kernel.init(num_cpus=1)

        @kernel.remote
        def work(x):
            return x

        refs = [work.remote(i) for i in range(100)]
        ctypes.PyDLL(None).sleep(3)
        assert kernel.get(refs) == list(range(100))
        print("done")
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=ROOT, timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("done\n", "")
