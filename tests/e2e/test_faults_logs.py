"""What a session writes: nothing of ours on the console, bounded files, and nothing outside its directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kernel
from kernel.testing.faults import agents_of, paused, wait_until
from kernel.testing.leaks import MARK, no_leaks
from kernel.testing.session import running_session, temporary_root
from kernel_processes.node import log_service
from kernel_processes.node.log_service import LogService
from kernel_processes.system.log_writer import LogWriter
from kernel_processes.system.rotating_file import RotatingFile
from kernel_processes.transport.reactor import Reactor

ROOT = Path(__file__).resolve().parents[2]

HELLO = """
    import kernel
    from kernel_processes.runtime import session_objects
    from kernel_processes.runtime import process_runtime

    process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment
    session_objects.PATIENCE_SECONDS = 600.0  # it would warn of what takes a few seconds
    {init}

    @kernel.remote
    def hello():
        return "hello"

    @kernel.remote
    class Counter:
        def add(self):
            return 1

    assert kernel.get(hello.remote()) == "hello"
    assert kernel.get(Counter.remote().add.remote()) == 1
    assert len(kernel.get(kernel.put(bytes(1_000_000)))) == 1_000_000
    {more}
"""

SECONDS = 120.0


def run(
    root: str, mark: str, init: str = "kernel.init(num_cpus=1)", more: str = "", **variables: str
) -> tuple[str, str]:
    environment = {
        **os.environ, "KERNEL_TMPDIR": root, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path), **variables
    }  # fmt: skip
    program = textwrap.dedent(HELLO).format(init=init, more=more)
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=SECONDS, cwd=root
    )
    assert found.returncode == 0, found.stderr
    return found.stdout, found.stderr


@pytest.mark.parametrize(("init", "more"), [("kernel.init(num_cpus=1)", "kernel.shutdown()"), ("", "")])
def test_hello_world_prints_nothing_of_ours(init: str, more: str) -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        assert run(root, mark, init, more) == ("", "")


def ours_in(directory: str) -> set[str]:
    """Return what has our name: other tests of this moment have theirs in a directory of the whole run."""
    return {name for name in os.listdir(directory) if "kernel" in name.lower()}


def test_nothing_is_written_elsewhere() -> None:
    """Below KERNEL_TMPDIR while the session lives; only what was found of plugins is kept, in the user's cache."""
    with temporary_root() as root, no_leaks(root) as mark:
        home = os.path.join(root, "home")
        os.mkdir(home)
        others = ours_in("/dev/shm"), ours_in("/tmp")
        run(root, mark, HOME=home, XDG_CACHE_HOME=home, TMPDIR=home)
        assert os.listdir(home) in ([], ["python-entrypoints"])
        shutil.rmtree(home)
        assert (ours_in("/dev/shm"), ours_in("/tmp")) == others


def test_workers_that_print_a_lot_stay_within_the_cap(tmp_path: Path) -> None:
    reactor = Reactor()
    seen = 0

    def count(worker: bytes, name: str, stream: str, lines: list[str]) -> None:
        nonlocal seen
        seen += len(lines)

    service = LogService(reactor, str(tmp_path), lambda worker: (1, "noisy"), count)
    path = str(tmp_path / "workers.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "_file", LogWriter(RotatingFile(path, 100_000, log_service.FILES)))
        ends = [service.open(bytes([number]) * 8) for number in range(8)]
        for _ in range(60):
            for out, errors in ends:
                os.write(out, b"x" * 99 + b"\n" + b"y" * 3000 + b"\n")
                os.write(errors, b"z" * 500 + b"\n")
            while reactor.poll(0):
                pass
        for pair in ends:
            for end in pair:
                os.close(end)
        while reactor.poll(0.01):
            pass
        service.close()
    reactor.close()
    assert seen == 60 * 8 * 3
    files = sorted(tmp_path.iterdir())
    assert len(files) == log_service.FILES
    assert sum(file.stat().st_size for file in files) <= 100_000 * log_service.FILES


def test_a_line_without_an_end_does_not_fill_memory(tmp_path: Path) -> None:
    reactor = Reactor()
    pieces: list[str] = []
    service = LogService(
        reactor, str(tmp_path), lambda worker: (1, "endless"), lambda w, n, s, lines: pieces.extend(lines)
    )
    out, errors = service.open(b"worker00")
    for _ in range(40):
        os.write(out, b"x" * 60_000)
        reactor.poll(0)
    os.close(out)
    os.close(errors)
    while reactor.poll(0.01):
        pass
    service.close()
    reactor.close()
    assert sum(map(len, pieces)) == 40 * 60_000
    assert len(pieces) >= 20


def test_a_full_disk_for_logs_stops_nothing() -> None:
    file = RotatingFile("/dev/full", 1000, 2)
    for _ in range(10):
        file.write("no room for this\n" * 10)
    file.close()
    missing = RotatingFile("/nonesuch/place", 1000, 2)
    missing.write("lost\n")
    missing.close()


def test_output_reaches_the_driver_once_with_its_origin() -> None:
    more = """
@kernel.remote
def talk():
    import sys
    print("to output")
    print("to errors", file=sys.stderr)

kernel.get(talk.remote())
kernel.shutdown()"""
    with temporary_root() as root, no_leaks(root) as mark:
        out, errors = run(root, mark, more=more)
        assert out.count("to output") == 1 and "pid=" in out
        assert errors.count("to errors") == 1 and "pid=" in errors
        assert run(root, mark, "kernel.init(num_cpus=1, log_to_driver=False)", more) == ("", "")


def test_every_line_has_the_name_of_the_task_that_wrote_it_or_none() -> None:
    more = """
import os, subprocess, sys

@kernel.remote
def first():
    print("by the first")
    print("its errors\\nand more of them", file=sys.stderr)

@kernel.remote
def second():
    print("by the", end=" ", flush=True)
    print("second")
    subprocess.run(["echo", "by a subprocess"])

@kernel.remote
class Third:
    def __init__(self):
        print("by the third")
        subprocess.run(["echo", "by its subprocess"])
    def ready(self):
        pass

for _ in range(2):
    kernel.get([first.remote(), second.remote()])
kernel.get(Third.remote().ready.remote())
kernel.shutdown()"""
    with temporary_root() as root, no_leaks(root) as mark:
        out, errors = run(root, mark, more=more)
        origin = r"\((\w+) pid=\d+\) (.*)"
        tasks = [("first", "by the first"), ("second", "by the second"), ("worker", "by a subprocess")]
        actor = [("Third", "by the third"), ("Third", "by its subprocess")]
        assert re.findall(origin, out) == [*tasks, *tasks, *actor]
        assert re.findall(origin, errors) == [("first", "its errors"), ("first", "and more of them")] * 2


def test_a_flood_of_output_keeps_the_session_responsive_and_the_agent_small() -> None:
    with running_session(num_cpus=2, log_to_driver=False) as session:

        @kernel.remote
        def shout(megabytes: int) -> int:
            line = "x" * 1023
            for _ in range(megabytes * 1024):
                print(line)
            return megabytes

        @kernel.remote
        def whisper() -> int:
            return 1

        before = resident_bytes(session.agent)
        ref = shout.remote(96)
        whispers = 0
        while not kernel.wait([ref], timeout=0)[0]:
            assert kernel.get(whisper.remote(), timeout=SECONDS) == 1
            whispers += 1
        assert kernel.get(ref) == 96
        assert whispers >= 10, "tasks go on beside it"
        assert resident_bytes(session.agent) - before < 64 << 20
        logs = list(Path(session.directory, "logs").iterdir())
        assert sum(file.stat().st_size for file in logs) <= log_service.FILE_BYTES * log_service.FILES + (4 << 20)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_driver_that_does_not_read_does_not_fill_the_agents_memory() -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        program = """
            import kernel
            kernel.init(num_cpus=1)

            @kernel.remote
            def shout():
                line = "x" * 1023
                open("begun", "w").close()
                for number in range(128 * 1024):
                    print(line)
                open("done", "w").close()

            print("ready", flush=True)
            kernel.get(shout.remote())
        """
        environment = {**os.environ, "KERNEL_TMPDIR": root, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)}
        driver = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root,
        )  # fmt: skip
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        agent = agents_of(driver.pid)[0]
        wait_until(lambda: os.path.exists(os.path.join(root, "begun")), SECONDS, "the begin of the shouting")
        with paused(driver.pid):
            wait_until(lambda: os.path.exists(os.path.join(root, "done")), SECONDS, "the end of the shouting")
            assert resident_bytes(agent) < 120 << 20
        driver.communicate(timeout=SECONDS)
        assert driver.returncode == 0
        os.unlink(os.path.join(root, "done"))
        os.unlink(os.path.join(root, "begun"))


def test_a_thousand_short_workers_leave_few_files() -> None:
    with running_session(num_cpus=2) as session:

        @kernel.remote(max_calls=1)
        def once(n: int) -> int:
            print(n)
            return n

        assert kernel.get([once.remote(n) for n in range(60)], timeout=SECONDS) == list(range(60))
        assert len(os.listdir(os.path.join(session.directory, "logs"))) <= 4
        sockets = os.path.join(session.directory, "sockets")
        wait_until(lambda: len(os.listdir(sockets)) <= 4, SECONDS, "the end of worn out workers' sockets")
