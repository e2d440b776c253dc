"""What `ps` shows: what each process of a session is, and what its workers do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kernel
from kernel import serve, tune
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session

SECONDS = 120.0


@kernel.remote
def train(gate: str) -> int:
    Path(gate + ".begun").touch()
    while not os.path.exists(gate):
        time.sleep(0.01)
    return os.getpid()


@kernel.remote
def says(gate: str) -> int:
    kernel.set_title("epoch 7")
    return kernel.get(train.options(num_cpus=0).remote(gate))


@kernel.remote(num_cpus=0)
class Counter:
    def __init__(self, gate: str) -> None:
        while not os.path.exists(gate):
            time.sleep(0.01)

    def pid(self) -> int:
        return os.getpid()


@kernel.remote(num_cpus=0)
class Async:
    async def pid(self) -> int:
        return os.getpid()


def title(pid: int) -> str:
    """Return what `ps` shows of a process, empty if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return words.rstrip(b"\0").replace(b"\0", b" ").decode().strip()


def shows(pids: Callable[[], list[int]], expected: str) -> None:
    wait_until(lambda: expected in [title(pid) for pid in pids()], SECONDS, f"a process that shows {expected!r}")


def test_processes_show_what_they_are_and_workers_what_they_do(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    with running_session(num_cpus=2) as session:
        assert title(session.agent) == f"kernel: agent {session.directory}"
        assert title(session.template) == "kernel: template"
        running = train.remote(gate)
        shows(session.workers, "kernel: train()")
        counter = Counter.options(name="clicks").remote(gate)
        shows(session.workers, "kernel: Counter clicks (starting)")
        Path(gate).touch()
        pid = kernel.get(running, timeout=SECONDS)
        shows(lambda: [pid], "kernel: idle worker")
        assert title(kernel.get(counter.pid.remote(), timeout=SECONDS)) == "kernel: Counter clicks"
        assert title(kernel.get(Async.remote().pid.remote(), timeout=SECONDS)) == "kernel: Async"


def test_a_worker_can_say_what_it_does_and_a_program_keeps_its_line(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    own = title(os.getpid())
    with running_session(num_cpus=2) as session:
        waiting = says.remote(gate)
        shows(session.workers, "kernel: epoch 7")
        kernel.set_title("not a worker")
        Path(gate).touch()
        kernel.get(waiting, timeout=SECONDS)
    assert title(os.getpid()) == own


def test_replicas_and_trials_show_which_they_are(tmp_path: Path) -> None:
    class Hello:
        def __call__(self) -> str:
            return "hello"

    def objective(config: dict[str, int]) -> None:
        wait_until(lambda: (tmp_path / "gate").exists(), SECONDS, "the end of the trial")
        tune.report({"score": config["x"]})

    def look(line: str, pids: list[int]) -> None:
        wait_until(lambda: any(title(pid).startswith(line) for pid in pids), SECONDS, line)

    with running_session(num_cpus=2) as session:
        serve.run(serve.deployment(Hello).bind(), name="shop", route_prefix=None)
        look("kernel: ReplicaActor serve replica shop#Hello#", session.workers())
        serve.shutdown()
        config = tune.RunConfig(storage_path=str(tmp_path / "results"), verbose=0)
        seen: list[str] = []

        def watch() -> None:
            while not seen:
                seen.extend(
                    line for line in map(title, session.workers()) if line.startswith("kernel: trial objective_")
                )
                time.sleep(0.05)
            (tmp_path / "gate").touch()

        watching = threading.Thread(target=watch)
        watching.start()
        tune.Tuner(objective, param_space={"x": 1}, run_config=config).fit()
        watching.join()


@pytest.mark.parametrize("length", [1, 5000])
def test_a_title_of_any_length_leaves_the_process_alone(length: int) -> None:
    @kernel.remote
    def shown() -> str:
        kernel.set_title("ü" * length)
        return title(os.getpid())

    with running_session(num_cpus=1):
        line = kernel.get(shown.remote(), timeout=SECONDS)
        assert line.startswith("kernel: ü") and len(line) <= len("kernel: ") + length
        assert kernel.get(shown.remote(), timeout=SECONDS) == line
