"""Sessions begin, live side by side, end, and leave nothing; what can't begin says why, soon."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import kernel
from kernel.exceptions import KernelError, PluginNotFoundError, SessionEndedError, UsageError
from kernel.testing.faults import agents_of, kill, wait_until
from kernel.testing.leaks import MARK, no_leaks
from kernel.testing.session import running_session, temporary_root

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0

WAITS = """
    import sys
    import kernel
    from kernel_processes.runtime import session_objects

    session_objects.PATIENCE_SECONDS = 600.0  # it would warn of what takes a few seconds
    kernel.init(num_cpus=1, object_store_memory=32 << 20)

    @kernel.remote
    def double(x):
        return 2 * x

    print(kernel.get(double.remote(21)), flush=True)
    for line in sys.stdin:
        print(kernel.get(double.remote(int(line))), flush=True)
"""


def start(root: str, mark: str, source: str = WAITS) -> subprocess.Popen[str]:
    """Start a program that uses the kernel, without waiting for it."""
    environment = {**os.environ, "KERNEL_TMPDIR": root, MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def ask(program: subprocess.Popen[str], number: int) -> int:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(f"{number}\n")
    program.stdin.flush()
    return int(program.stdout.readline())


def finish(program: subprocess.Popen[str]) -> str:
    """End a program by closing its input; return what it wrote to its errors."""
    errors = program.communicate(timeout=SECONDS)[1]
    assert program.returncode == 0, errors
    return errors


# -- side by side --------------------------------------------------------------------------------------------------


def test_ten_sessions_side_by_side() -> None:
    with temporary_root() as root, no_leaks(root) as mark:
        programs = [start(root, mark) for _ in range(10)]
        for program in programs:
            assert program.stdout is not None
            assert program.stdout.readline() == "42\n"
        sessions = os.listdir(os.path.join(root, f"kernel-{os.getuid()}"))
        assert len(sessions) == 10
        for number, program in enumerate(programs[::2]):
            if number % 2:
                finish(program)
            else:
                kill(program.pid)
                program.communicate()
        assert [ask(program, 4) for program in programs[1::2]] == [8] * 5
        wait_until(
            lambda: len(os.listdir(os.path.join(root, f"kernel-{os.getuid()}"))) == 5, SECONDS, "the end of five"
        )
        assert [finish(program) for program in programs[1::2]] == [""] * 5


# -- again and again -----------------------------------------------------------------------------------------------


def one_cycle(root: str) -> None:
    @kernel.remote
    def double(x: int) -> int:
        return 2 * x

    @kernel.remote
    class Adder:
        def add(self, array: np.ndarray) -> float:
            return float(array.sum())

    with kernel.init(num_cpus=2, object_store_memory=64 << 20, temp_dir=root):
        assert kernel.get([double.remote(i) for i in range(5)]) == [0, 2, 4, 6, 8]
        assert kernel.get(Adder.remote().add.remote(kernel.put(np.ones(50_000)))) == 50_000


def test_many_cycles_leave_nothing() -> None:
    with temporary_root() as root:
        one_cycle(root)
        gc.collect()
        with no_leaks(root):
            before = resident_bytes()
            for _ in range(8):
                one_cycle(root)
            gc.collect()
            grown = resident_bytes() - before
        assert grown < 8 << 20, f"8 cycles grew this process by {grown} bytes"


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_shutdown_twice_and_init_again() -> None:
    with temporary_root() as root, no_leaks(root):
        for _ in range(2):
            kernel.init(num_cpus=1, temp_dir=root)
            kernel.shutdown()
            kernel.shutdown()


def test_shutdown_while_other_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[object] = []
    waiting: set[int] = set()
    with running_session(num_cpus=1):
        inspection = kernel.api.session.ensure_session().inspection
        monkeypatch.setattr("kernel_processes.runtime.session_objects.PATIENCE_SECONDS", 0.05)
        monkeypatch.setattr(inspection, "warn_waiting", lambda pending: waiting.add(threading.get_ident()))

        @kernel.remote
        def nap() -> None:
            time.sleep(600)

        ref = nap.remote()

        def wait() -> None:
            try:
                outcomes.append(kernel.get(ref))
            except KernelError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(waiting) == 4, SECONDS, "four threads that wait")
        kernel.shutdown()
        for thread in threads:
            thread.join(timeout=SECONDS)
        assert [type(outcome) for outcome in outcomes] == [SessionEndedError] * 4


def test_shutdown_ends_work_that_is_running_soon(tmp_path: Path) -> None:
    """It would never end by itself."""
    with running_session(num_cpus=2):

        @kernel.remote
        def stubborn() -> None:
            import signal

            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            (tmp_path / str(os.getpid())).touch()
            while True:
                time.sleep(1)

        refs = [stubborn.remote() for _ in range(2)]
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, SECONDS, "two stubborn tasks")
        kernel.shutdown()
        del refs


# -- what can't begin ----------------------------------------------------------------------------------------------


@contextmanager
def fails_soon(error: type[Exception], words: str) -> Iterator[None]:
    """The block raises this error without waiting for an agent, which may take ten minutes, and leaves no session."""
    begun = time.monotonic()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(error, match=words):
        patch.setattr("kernel_processes.daemons.launch.START_SECONDS", 600.0)
        yield
    assert time.monotonic() - begun < SECONDS
    assert not kernel.is_initialized()
    assert not agents_of()


def test_a_missing_temporary_directory() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_TMPDIR", os.path.join(root, "file"))
        Path(root, "file").write_text("")
        with fails_soon(UsageError, "can't be used: .*KERNEL_TMPDIR"):
            kernel.init()
        os.unlink(os.path.join(root, "file"))


def test_a_temporary_directory_without_room_to_write() -> None:
    with temporary_root() as root, no_leaks(root):
        private = os.path.join(root, f"kernel-{os.getuid()}")
        try:
            os.chmod(private, 0o500)
            if os.getuid() == 0:
                os.rmdir(private)
                Path(private).write_text("root may write anywhere; not here")
            with fails_soon(UsageError, "(can't be used|can't be made|must belong)"):
                kernel.init(temp_dir=root)
        finally:
            if os.path.isfile(private):
                os.unlink(private)
                os.mkdir(private)
            os.chmod(private, 0o700)


def test_a_read_only_temporary_directory() -> None:
    with temporary_root() as root, no_leaks(root), fails_soon(UsageError, "can't be used: .*KERNEL_TMPDIR"):
        kernel.init(temp_dir="/proc")


def test_a_disk_that_is_full() -> None:
    def no_room(path: str, token: bytes) -> None:
        Path(path).touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernel_processes.node.sessions.write_token", no_room)
        with fails_soon(UsageError, "can't be made: No space left.*KERNEL_TMPDIR"):
            kernel.init(temp_dir=root)


def test_a_path_that_is_too_long() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_TMPDIR", os.path.join(root, "x" * 80))
        with fails_soon(UsageError, "too long for socket paths.*KERNEL_TMPDIR"):
            kernel.init()
        os.rmdir(os.path.join(root, "x" * 80, f"kernel-{os.getuid()}"))
        os.rmdir(os.path.join(root, "x" * 80))


def test_a_root_that_others_may_use_is_refused() -> None:
    with temporary_root() as root, no_leaks(root):
        private = os.path.join(root, f"kernel-{os.getuid()}")
        os.chmod(private, 0o755)
        with fails_soon(UsageError, "must belong to you alone"):
            kernel.init(temp_dir=root)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"scheduler": "nonesuch"}, "scheduler.*'?nonesuch"),
        ({"object_store": "nonesuch"}, "nonesuch"),
        ({"serializer": "nonesuch"}, "nonesuch"),
        ({"spill_target": "nonesuch"}, "nonesuch"),
    ],
)
def test_an_unknown_plugin(choice: dict[str, str], words: str) -> None:
    with temporary_root() as root, no_leaks(root), fails_soon(PluginNotFoundError, words):
        kernel.init(temp_dir=root, **choice)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", ["environment", "file"])
@pytest.mark.parametrize("kind", ["scheduler", "node_provider"])
def test_an_unknown_plugin_that_was_chosen_elsewhere_is_not_replaced_by_local_mode(
    kind: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "file":
        (tmp_path / "kernel.toml").write_text(f'[plugins]\n{kind} = "nonesuch"\n')
        monkeypatch.setenv("KERNEL_CONFIG", str(tmp_path / "kernel.toml"))
    else:
        monkeypatch.setenv(f"KERNEL_{kind.upper()}", "nonesuch")
    with temporary_root() as root, no_leaks(root), fails_soon(PluginNotFoundError, "nonesuch"):
        kernel.init(temp_dir=root)


BROKEN_PLUGIN = {
    "broken-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n",
    "broken-1.0.dist-info/entry_points.txt": "[kernel.plugins]\nscheduler_broken = broken_plugin\n",
    "broken_plugin.py": "raise RuntimeError('the driver of the frobnicator is missing')\n",
}


def test_a_broken_plugin_that_was_chosen() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        with tempfile.TemporaryDirectory(dir="/tmp") as site:
            for name, text in BROKEN_PLUGIN.items():
                path = Path(site, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            patch.syspath_prepend(site)
            patch.setenv("KERNEL_SCHEDULER", "broken")
            with fails_soon(KernelError, "frobnicator"):
                kernel.init(temp_dir=root)
            patch.delenv("KERNEL_SCHEDULER")
            with kernel.init(temp_dir=root, num_cpus=1):
                pass  # a plugin that nobody chose may be broken


def test_an_object_store_that_can_not_be_had() -> None:
    with temporary_root() as root, no_leaks(root), fails_soon(KernelError, "object_store_memory"):
        kernel.init(temp_dir=root, object_store_memory=1 << 50)
    with temporary_root() as root, no_leaks(root), fails_soon(KernelError, "not a directory"):
        kernel.init(temp_dir=root, object_store_directory="/nonesuch")


def test_a_spill_directory_that_can_not_be_had() -> None:
    with temporary_root() as root, no_leaks(root), fails_soon(KernelError, "spill_directory"):
        kernel.init(temp_dir=root, spill_directory="/proc/nonesuch")


def test_an_interpreter_that_is_missing() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", "/nonesuch/python")
        with fails_soon(KernelError, "/nonesuch/python"):
            kernel.init(temp_dir=root)


def test_an_agent_that_dies_at_the_start_says_its_last_words() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        with tempfile.TemporaryDirectory(dir="/tmp") as site:
            Path(site, "sitecustomize.py").write_text(
                "import sys\nif '.daemons.agent_main' in ' '.join(sys.orig_argv): sys.exit('no room on the island')\n"
            )
            patch.syspath_prepend(site)
            with fails_soon(SessionEndedError, "exit code 1(.|\n)*no room on the island"):
                kernel.init(temp_dir=root)


def test_an_agent_that_is_killed_at_the_start() -> None:
    with temporary_root() as root, no_leaks(root):
        stop = threading.Event()

        def strike() -> None:
            while not stop.is_set():
                for agent in agents_of():
                    kill(agent)
                    return
                time.sleep(0.001)

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            with fails_soon(SessionEndedError, "."):
                with kernel.init(temp_dir=root):
                    while True:  # the blow may fall late
                        kernel.get(kernel.remote(lambda: 1).remote())
        finally:
            stop.set()
            thread.join()
            kernel.shutdown()


def test_a_session_that_is_not_there() -> None:
    with temporary_root() as root, no_leaks(root), pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_TMPDIR", root)
        with fails_soon(SessionEndedError, "no running session"):
            kernel.init("auto")
        with fails_soon(SessionEndedError, "no session answers"):
            kernel.init("/nonesuch/session")


def test_nothing_is_imported_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("queue", "json", "structlog", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})")
    monkeypatch.chdir(tmp_path)
    with running_session():
        assert kernel.get(kernel.remote(lambda: os.getcwd()).remote(), timeout=SECONDS) == str(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_init_from_many_threads_begins_one_session() -> None:
    with temporary_root() as root, no_leaks(root):
        try:
            with ThreadPoolExecutor(8) as pool:
                infos = list(pool.map(lambda n: kernel.init(temp_dir=root, ignore_reinit_error=True), range(8)))
            assert len({info["session_dir"] for info in infos}) == 1
        finally:
            kernel.shutdown()
