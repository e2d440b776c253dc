"""kill -9 under load: right results or the documented error, and nothing left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import kernel
from kernel.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ObjectLostError,
    OwnerDiedError,
    SessionEndedError,
    WorkerDiedError,
)
from kernel.runtime.current import get_runtime
from kernel.testing.faults import agents_of, kill, paused, slowed, template_of, wait_until, workers_of
from kernel.testing.leaks import MARK, no_leaks
from kernel.testing.session import RunningSession, running_session, temporary_root
from kernel_processes.node import session_lock
from kernel_processes.system.processes import children_of, descendants_of, is_alive

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 120.0


@kernel.remote(max_retries=-1)
def square(x: int) -> int:
    time.sleep(0.002)
    return x * x


@kernel.remote(max_retries=-1)
def add(a: int, b: int) -> int:
    return a + b


@kernel.remote(max_retries=-1)
def array(n: int) -> np.ndarray:
    return np.full(100_000, n)


@kernel.remote(max_retries=-1)
def total(a: np.ndarray) -> int:
    return int(a.sum())


@kernel.remote(max_retries=0)
def nap(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@kernel.remote(max_retries=0)
def pid() -> int:
    return os.getpid()


@kernel.remote
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int = 1) -> int:
        self.count += n
        return self.count

    def pid(self) -> int:
        return os.getpid()


@pytest.fixture
def session() -> Iterator[RunningSession]:
    with running_session() as found:
        yield found


@contextmanager
def ended_session() -> Iterator[None]:
    """Leave no session running, whatever happens in the block."""
    try:
        yield
    finally:
        kernel.shutdown()


def keep_killing(victims: object, seed: int, stop: threading.Event, every: tuple[float, float]) -> threading.Thread:
    """Kill a random one of `victims()` from time to time, until told to stop.

    It becomes rarer: on a busy machine no worker would live long enough to do anything.
    """
    chance, rarer = random.Random(seed), 1.0

    def run() -> None:
        nonlocal rarer
        while not stop.wait(rarer * chance.uniform(*every)):
            pids = victims()  # type: ignore[operator]
            if pids:
                rarer *= 1.05
                try:
                    kill(chance.choice(pids))
                except ProcessLookupError:
                    continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def check_load(rounds: int) -> None:
    """Run tasks with dependencies and large objects; every result must be right."""
    for number in range(rounds):
        squares = [square.remote(i) for i in range(40)]
        sums = [add.remote(a, b) for a, b in zip(squares[::2], squares[1::2], strict=True)]
        totals = [total.remote(array.remote(number + i)) for i in range(6)]
        assert kernel.get(sums, timeout=SECONDS) == [(2 * i) ** 2 + (2 * i + 1) ** 2 for i in range(20)]
        assert kernel.get(totals, timeout=SECONDS) == [100_000 * (number + i) for i in range(6)]


# -- workers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_killed_at_random_cost_no_result(session: RunningSession, seed: int) -> None:
    stop = threading.Event()
    killer = keep_killing(session.workers, seed, stop, (0.05, 0.25))
    try:
        check_load(12)
    finally:
        stop.set()
        killer.join()
    check_load(1)


@kernel.remote(max_retries=-1)
def parts_of(row: int, columns: int) -> list[np.ndarray]:
    return [np.full(14_000, row * columns + column) for column in range(columns)]


@kernel.remote(max_retries=-1)
def merged(*parts: np.ndarray) -> int:
    return int(sum(part[0] + part[-1] for part in parts))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_shuffle_ends_though_workers_are_killed_in_quick_succession(session: RunningSession, seed: int) -> None:
    rows, columns = 100, 40
    stop = threading.Event()
    killer = keep_killing(session.workers, seed, stop, (0.1, 0.4))
    try:
        made = [parts_of.options(num_returns=columns).remote(row, columns) for row in range(rows)]
        sums = [merged.remote(*(parts[column] for parts in made)) for column in range(columns)]
        found = kernel.get(sums, timeout=2 * SECONDS)
    finally:
        stop.set()
        killer.join()
    assert found == [sum(2 * (row * columns + column) for row in range(rows)) for column in range(columns)]


def test_a_killed_worker_is_named_with_its_signal(session: RunningSession, tmp_path: Path) -> None:
    @kernel.remote(max_retries=0)
    def hang() -> None:
        (tmp_path / "begun").touch()
        time.sleep(600)

    ref = hang.remote()
    wait_until((tmp_path / "begun").exists, SECONDS, "the begin of the task")
    busy = wait_for_busy(session)
    kill(busy)
    with pytest.raises(WorkerDiedError, match=rf"hang\(\) .*signal 9 \(SIGKILL\).*pid {busy}"):
        kernel.get(ref, timeout=SECONDS)


def wait_for_busy(session: RunningSession) -> int:
    """Return the pid of the worker that runs a task."""
    from kernel.runtime.current import get_runtime

    def busy() -> list[int]:
        return [w["pid"] for w in get_runtime().query("workers") if w["state"] == "leased" and w["pid"]]

    wait_until(busy, SECONDS, "a leased worker")
    return busy()[0]


def test_tasks_behind_a_killed_one_lose_no_retry(session: RunningSession) -> None:
    pids = {kernel.get(pid.remote()) for _ in range(3)}
    for worker in pids:
        kill(worker)
    assert kernel.get([square.remote(i) for i in range(50)], timeout=SECONDS) == [i * i for i in range(50)]


def threads_of(pid: int) -> list[str]:
    """Return the threads that still hold the process's sockets: they may outlive the first one, which is a zombie."""
    try:
        return [thread for thread in os.listdir(f"/proc/{pid}/task") if is_alive(int(thread))]
    except OSError:
        return []


def test_a_task_that_finds_its_worker_dead_runs_elsewhere_though_it_has_no_retry(session: RunningSession) -> None:
    """It was never begun: it could not even be sent."""
    io = get_runtime().io  # type: ignore[attr-defined]
    for _ in range(3):
        victim = kernel.get(pid.remote())
        with io.lock:  # so that the end of its connection is not noticed yet
            kill(victim)
            wait_until(lambda: not threads_of(victim), SECONDS, "the death of the worker")  # noqa: B023
            refs = [pid.remote() for _ in range(2)]
            io.flush()
        assert victim not in kernel.get(refs, timeout=SECONDS)


def test_a_killed_actor_is_dead_and_says_how(session: RunningSession) -> None:
    counter = Counter.remote()
    victim = kernel.get(counter.pid.remote())
    kill(victim)
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        kernel.get(counter.add.remote(), timeout=SECONDS)
    with pytest.raises(ActorDiedError, match="SIGKILL"):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_a_killed_actor_restarts_with_calls_made_again(session: RunningSession) -> None:
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    for _ in range(4):
        kill(kernel.get(counter.pid.remote(), timeout=SECONDS))
        assert kernel.get([counter.add.remote() for _ in range(20)], timeout=SECONDS)[-1] >= 20


def test_calls_of_a_restarting_actor_without_retries_fail_or_run(session: RunningSession) -> None:
    counter = Counter.options(max_restarts=-1).remote()
    outcomes = []
    for _ in range(4):
        victim = kernel.get(counter.pid.remote(), timeout=SECONDS)
        refs = [counter.add.remote() for _ in range(200)]
        outcomes.append(kernel.get(refs[0], timeout=SECONDS))
        kill(victim)
        for ref in refs[1:]:
            try:
                outcomes.append(kernel.get(ref, timeout=SECONDS))
            except ActorUnavailableError as error:
                outcomes.append(error)
        wait_until(lambda: can_call(counter), SECONDS, "the actor's restart")
    assert len(outcomes) == 800
    assert all(isinstance(outcome, (int, ActorUnavailableError)) for outcome in outcomes)


def can_call(counter: object) -> bool:
    try:
        return kernel.get(counter.add.remote(), timeout=SECONDS) > 0  # type: ignore[attr-defined,no-any-return]
    except ActorUnavailableError:
        return False


def test_objects_of_a_dead_owner_are_lost_and_the_error_says_so(session: RunningSession) -> None:
    @kernel.remote
    class Maker:
        def make(self) -> list[kernel.ObjectRef]:
            return [kernel.put(np.ones(50_000)), kernel.put(7), nap.remote(600)]

        def pid(self) -> int:
            return os.getpid()

    maker = Maker.remote()
    refs = kernel.get(maker.make.remote(), timeout=SECONDS)
    kill(kernel.get(maker.pid.remote()))
    for ref in refs:
        with pytest.raises((OwnerDiedError, ObjectLostError)):
            kernel.get(ref, timeout=SECONDS)


def test_what_a_worker_started_ends_with_it(session: RunningSession) -> None:
    @kernel.remote(max_retries=0)
    def start_and_hang() -> None:
        subprocess.Popen(["sleep", "1234.5"])
        subprocess.Popen(["sh", "-c", "sleep 1234.5 & wait"])
        time.sleep(600)

    ref = start_and_hang.remote()
    wait_until(lambda: len(sleepers(1234.5)) >= 2, SECONDS, "the start of two subprocesses")
    kill(wait_for_busy(session))
    with pytest.raises(WorkerDiedError):
        kernel.get(ref, timeout=SECONDS)
    wait_until(lambda: not sleepers(1234.5), SECONDS, "the end of the subprocesses")


def sleepers(seconds: float) -> list[int]:
    """Return the processes that run `sleep` with this argument."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and Path("/proc", name, "cmdline").read_bytes() == b"sleep\0%b\0" % str(seconds).encode():
                found.append(int(name))
        except OSError:
            continue
    return found


# -- the template --------------------------------------------------------------------------------------------------


def test_a_killed_template_costs_nothing_but_time(session: RunningSession) -> None:
    counter = Counter.remote()
    assert kernel.get(counter.add.remote()) == 1
    check_load(1)
    stop = threading.Event()
    killer = keep_killing(lambda: templates(session), 3, stop, (0.3, 0.6))
    try:
        check_load(10)
    finally:
        stop.set()
        killer.join()
    assert kernel.get(counter.add.remote()) == 2
    more = [Counter.remote() for _ in range(3)]
    assert kernel.get([c.add.remote() for c in more], timeout=SECONDS) == [1, 1, 1]


def templates(session: RunningSession) -> list[int]:
    try:
        return [session.template]
    except AssertionError:
        return []  # the next one starts


def test_what_outlived_a_template_leaves_no_dead_processes_behind(session: RunningSession) -> None:
    @kernel.remote
    class Parent:
        def leave_orphans(self) -> None:
            subprocess.run(["sh", "-c", "for n in 1 2 3 4 5; do (sleep 0.1 &); done"], check=True)

        def end(self) -> None:
            os._exit(7)

    parent = Parent.remote()
    kernel.get(parent.leave_orphans.remote())
    kill(session.template)
    kernel.get(parent.leave_orphans.remote())
    wait_until(lambda: templates(session), SECONDS, "another template")
    kernel.get(parent.leave_orphans.remote())
    with pytest.raises(ActorDiedError, match="it ended with exit code 7"):
        kernel.get(parent.end.remote())
    wait_until(lambda: children_of(session.agent) == templates(session), SECONDS, "the end of all others")


def test_workers_and_template_killed_together(session: RunningSession) -> None:
    kernel.get([square.remote(i) for i in range(20)])
    for _ in range(3):
        refs = [square.remote(i) for i in range(100)]
        for victim in [*session.workers(), *templates(session)]:
            kill(victim)
        assert kernel.get(refs, timeout=SECONDS) == [i * i for i in range(100)]


# -- the agent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_killed_agent_ends_the_session_and_another_can_begin(delay: float) -> None:
    with temporary_root() as root, no_leaks(root), ended_session():
        kernel.init(num_cpus=2, temp_dir=root)
        kept = kernel.put(np.ones(200_000))
        view = kernel.get(kept)
        counter = Counter.remote()
        refs = [
            nap.remote(600),
            counter.add.remote(),
            *(total.remote(array.remote(i)) for i in range(5)),
            nap.remote(600),
        ]
        threading.Timer(delay, lambda: kill(agents_of()[0])).start()
        with pytest.raises(SessionEndedError, match=r"its node agent died \(.+\); .*init\(\)"):
            kernel.get(refs, timeout=SECONDS)
        for use in (
            lambda: kernel.get(pid.remote()),
            lambda: kernel.put(np.ones(200_000)),
            Counter.remote,
            kernel.nodes,
        ):
            with pytest.raises(SessionEndedError):
                use()
        assert view.sum() == 200_000, "what was read before stays readable"
        kernel.shutdown()
        kernel.init(num_cpus=2, temp_dir=root)
        assert kernel.get([square.remote(i) for i in range(10)], timeout=SECONDS) == [i * i for i in range(10)]
        kernel.shutdown()
        del view, kept, refs, counter


@pytest.mark.parametrize("victims", ["agent", "agent, template"])
def test_what_was_spilled_goes_with_a_killed_agent(victims: str) -> None:
    with temporary_root() as root, no_leaks(root), ended_session():
        spill = os.path.join(root, "spill")
        kernel.init(num_cpus=1, temp_dir=root, object_store_memory=32 << 20, spill_directory=spill)
        kept = [kernel.put(np.ones(10 << 20, np.uint8)) for _ in range(5)]
        assert kernel.get(pid.remote())
        (directory,) = Path(spill).iterdir()
        wait_until(lambda: any(directory.iterdir()), SECONDS, "spilling")
        agent = agents_of()[0]
        kill_together({"agent": agent, "template": template_of(agent)}, victims)
        wait_until(lambda: not directory.exists(), SECONDS, "the end of what was spilled")
        os.rmdir(spill)
        kept.clear()


@kernel.remote(num_returns="streaming")
def endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
        time.sleep(0.05)


def read_stream(items: Iterable[kernel.ObjectRef]) -> None:
    for ref in items:
        kernel.get(ref)


async def await_result() -> None:
    await nap.remote(600)


def put_and_put() -> None:
    while True:
        kernel.put(np.ones(200_000))


def ask_and_ask() -> None:
    while True:
        kernel.nodes()


def call_and_call() -> None:
    counter = Counter.remote()
    while True:
        kernel.get([counter.add.remote() for _ in range(20)])


def wait_and_get(ref: kernel.ObjectRef) -> None:
    kernel.get(kernel.wait([ref])[0])


WAYS_TO_WAIT: dict[str, Callable[[], object]] = {
    "get": lambda: kernel.get(nap.remote(600)),
    "wait": lambda: wait_and_get(nap.remote(600)),
    "a stream that yields": lambda: read_stream(endless.remote()),
    "a stream that waits for a worker": lambda: read_stream(endless.options(num_cpus=4).remote()),
    "await": lambda: asyncio.run(await_result()),
    "future": lambda: nap.remote(600).future().result(),
    "put": put_and_put,
    "questions": ask_and_ask,
    "calls": call_and_call,
    "an actor without room": lambda: kernel.get(Counter.options(num_cpus=4).remote().add.remote()),
}


def test_every_wait_ends_when_the_agent_dies() -> None:
    with temporary_root() as root, no_leaks(root), ended_session():
        kernel.init(num_cpus=4, temp_dir=root)
        blocker = nap.remote(600)
        counter = Counter.remote()
        kernel.get(counter.add.remote())
        outcomes: dict[str, BaseException] = {}

        def wait(name: str, use: Callable[[], object]) -> None:
            try:
                use()
            except BaseException as error:
                outcomes[name] = error

        threads = [threading.Thread(target=wait, args=(name, way)) for name, way in WAYS_TO_WAIT.items()]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(workers_of(agents_of()[0])) >= 5, SECONDS, "work on every processor")
        kill(agents_of()[0])
        for thread in threads:
            thread.join(timeout=SECONDS)
        assert set(outcomes) == set(WAYS_TO_WAIT)
        for name, error in outcomes.items():
            assert isinstance(error, SessionEndedError), (name, error)
            assert "kernel.shutdown() and kernel.init()" in str(error), name
        with pytest.raises(SessionEndedError):
            counter.add.remote()
        outcomes.clear()
        del blocker, threads, thread, error


# -- the driver ----------------------------------------------------------------------------------------------------

DRIVER = """
    import subprocess, sys, threading, time
    import numpy as np
    import kernel

    kernel.init(num_cpus=2, object_store_memory=64 << 20)

    @kernel.remote
    def work(x):
        return np.full(50_000, x)

    @kernel.remote
    def daemonise():
        subprocess.Popen(["sleep", "4321.5"], start_new_session=True)
        subprocess.Popen(["sh", "-c", "(setsid sleep 4321.5 &) &"])
        time.sleep(600)

    @kernel.remote
    class Actor:
        def work(self, a):
            return float(a.sum())

    daemons = daemonise.remote()
    kept = [kernel.put(np.ones(1_000_000)) for _ in range(20)]
    actor = Actor.remote()
    kernel.get(actor.work.remote(work.remote(1)))
    print("ready", flush=True)
    while True:
        kernel.get([actor.work.remote(work.remote(i)) for i in range(20)])
"""


def start_driver(root: str, mark: str, source: str = DRIVER) -> subprocess.Popen[str]:
    """Start a program of its own that uses the kernel, and wait until it prints "ready"."""
    environment = {**os.environ, "KERNEL_TMPDIR": root, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    return driver


@pytest.mark.parametrize("victims", ["driver", "driver and agent", "driver, agent and template"])
def test_a_killed_program_leaves_nothing(victims: str) -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        with_daemons = "template" not in victims
        driver = start_driver(root, mark, DRIVER if with_daemons else DRIVER.replace("daemonise.remote()", "None"))
        if with_daemons:
            wait_until(lambda: len(sleepers(4321.5)) == 2, SECONDS, "the start of the daemons")
        agent = agents_of(driver.pid)[0]
        kill_together({"driver": driver.pid, "agent": agent, "template": template_of(agent)}, victims)
        driver.wait()
        driver.stdout.close()  # type: ignore[union-attr]


DIES_IN_INIT = """
    import os, signal
    import kernel
    from kernel_processes.session import joining
    from kernel_processes.runtime.process import Process

    def die(*arguments, **named):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_unregistered(self, method, *arguments, **named):
        self.flush()
        die()

    {patch}
    kernel.init(num_cpus=1)
"""


@pytest.mark.parametrize("patch", ["joining.join = die", "Process.call_agent = die_unregistered"])
def test_a_program_killed_while_it_joins_leaves_nothing(patch: str) -> None:
    with temporary_root() as root, no_leaks(root):
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("KERNEL_TMPDIR", root)
            program = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(DIES_IN_INIT.format(patch=patch))], cwd=ROOT
            )
        assert program.returncode == -signal.SIGKILL


FORKS = """
    import os, sys, time
    import kernel

    kernel.init(num_cpus=1)
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
        os._exit(0)
    sys.stdin.read()
"""


def test_a_forked_child_does_not_keep_a_session_alive() -> None:
    with temporary_root() as root:
        environment = {**os.environ, "KERNEL_TMPDIR": root}
        program = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(FORKS)],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert program.stdin is not None and program.stdout is not None
        child = int(program.stdout.readline())
        try:
            agent = agents_of(program.pid)[0]
            kill(program.pid)
            wait_until(lambda: not is_alive(agent), SECONDS, "the end of the agent")
            wait_until(
                lambda: not os.listdir(os.path.join(root, f"kernel-{os.getuid()}")), SECONDS, "the end of the session"
            )
        finally:
            kill(child)
            program.communicate()


def kill_together(processes: dict[str, int], victims: str) -> None:
    """Kill those whose names are in `victims`, none of which can react to the end of another."""
    targets = [pid for name, pid in processes.items() if name in victims]
    for target in targets:
        os.kill(target, signal.SIGSTOP)
    for target in targets:
        kill(target)
    wait_until(lambda: not any(map(is_alive, targets)), SECONDS, "the end of the killed processes")


def test_what_is_left_when_everything_is_killed_goes_with_the_next_session() -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        driver = start_driver(root, mark, DRIVER.replace("daemonise.remote()", "None"))
        agent = agents_of(driver.pid)[0]
        for pid in (agent, template_of(agent)):
            os.kill(pid, signal.SIGSTOP)  # a worker that is only being forked would clean up
        everyone = [driver.pid, agent, *descendants_of(agent)]
        kill_together({str(pid): pid for pid in everyone}, " ".join(map(str, everyone)))
        driver.wait()
        driver.stdout.close()  # type: ignore[union-attr]
        (left,) = os.scandir(os.path.join(root, f"kernel-{os.getuid()}"))
        # Of a process with threads that was killed the first may be gone a moment before the others, and its files.
        wait_until(lambda: not session_lock.is_held(left.path), SECONDS, "the end of the agent's lock")
        with ended_session():
            kernel.init(num_cpus=1, temp_dir=root)
            assert len(os.listdir(os.path.join(root, f"kernel-{os.getuid()}"))) == 1


def test_a_killed_driver_takes_only_its_own_work_along() -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        with pytest.MonkeyPatch.context() as patch, ended_session():
            patch.setenv("KERNEL_TMPDIR", root)
            kernel.init(num_cpus=4)
            mine = Counter.remote()
            assert kernel.get(mine.add.remote()) == 1
            source = DRIVER.replace("kernel.init(num_cpus=2, object_store_memory=64 << 20)", 'kernel.init("auto")')
            other = start_driver(root, mark, source)
            wait_until(lambda: len(sleepers(4321.5)) == 2, SECONDS, "the start of the daemons")
            kill(other.pid)
            other.wait()
            other.stdout.close()  # type: ignore[union-attr]
            assert kernel.get(mine.add.remote(), timeout=SECONDS) == 2
            wait_until(
                lambda: workers_of(agents_of()[0]) == [kernel.get(mine.pid.remote())], SECONDS, "the other's end"
            )
            from kernel.runtime.current import get_runtime

            wait_until(lambda: get_runtime().query("status")["store"]["used"] == 0, SECONDS, "the end of its objects")


# -- slow and stopped processes ------------------------------------------------------------------------------------


def test_a_stopped_worker_holds_up_only_what_it_has(session: RunningSession, tmp_path: Path) -> None:
    @kernel.remote
    def hold() -> int:
        (tmp_path / str(os.getpid())).touch()
        wait_until((tmp_path / "go").exists, SECONDS, "the worker's going on")
        return os.getpid()

    ref = hold.remote()
    wait_until(lambda: list(tmp_path.iterdir()), SECONDS, "the begin of the task")
    (worker,) = (int(path.name) for path in tmp_path.iterdir())
    with paused(worker):  # it is leased: an idle one could be given to the actor
        counter = Counter.remote()
        assert kernel.get(counter.add.remote(), timeout=SECONDS) == 1
    (tmp_path / "go").touch()
    assert kernel.get(ref, timeout=SECONDS) == worker
    check_load(1)


def test_slow_processes_give_right_results(session: RunningSession) -> None:
    kernel.get([square.remote(i) for i in range(20)])
    with slowed(session.agent, 0.5), slowed(session.template, 0.5), slowed(session.workers()[0], 0.3):
        check_load(3)


def test_a_stopped_template_delays_new_workers_and_nothing_else(session: RunningSession) -> None:
    counter = Counter.remote()
    assert kernel.get(counter.add.remote()) == 1
    with paused(session.template):
        assert kernel.get([counter.add.remote() for _ in range(10)], timeout=SECONDS) == list(range(2, 12))
        late = Counter.remote()
        call = late.add.remote()
        assert kernel.wait([call], timeout=0.3)[0] == []
    assert kernel.get(call, timeout=SECONDS) == 1


def large_then_small(once: Path) -> np.ndarray | int:
    """Return a large result and die when it is stored but not told of; after that a small one."""
    if once.exists():
        return 1
    once.touch()
    runner = sys.modules["kernel_engine.tasks.call_runner"].CallRunner
    runner._send_results = lambda *told: os._exit(9)
    return np.ones(100_000)


@kernel.remote(max_restarts=1, max_task_retries=1)
class LargeThenSmall:
    def make(self, once: Path) -> np.ndarray | int:
        return large_then_small(once)


@pytest.mark.parametrize("as_actor", [False, True])
def test_what_was_stored_but_not_told_of_does_not_stay(session: RunningSession, tmp_path: Path, as_actor: bool) -> None:
    if as_actor:
        actor = LargeThenSmall.remote()
        ref = actor.make.remote(tmp_path / "once")
    else:
        ref = kernel.remote(max_retries=1)(large_then_small).remote(tmp_path / "once")
    assert kernel.get(ref, timeout=SECONDS) == 1

    def stored() -> list[object]:
        return [row[0] for row in get_runtime().query("memory")["stored"]]

    wait_until(lambda: not stored(), SECONDS, "the end of what is stored")
