"""Actors by name: namespaces, detached actors across drivers, and what ends with its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.exceptions import ActorDiedError, ActorNotFoundError, NameTakenError, OptionError
from kernel.testing.constants import constants
from kernel_processes.daemons.launch import await_agent, start_agent
from kernel_processes.node.sessions import make_session
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.system.processes import descendants_of, is_alive
from kernel_processes.transport.authentication import make_token

SECONDS = 120.0


@kernel.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.value = start

    def increment(self) -> int:
        self.value += 1
        return self.value

    def pid(self) -> int:
        return os.getpid()


# -- one driver --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
class TestOneDriver:
    def test_name_finds_the_actor(self) -> None:
        counter = Counter.options(name="found").remote(5)
        assert kernel.get(kernel.get_actor("found").increment.remote()) == 6
        assert kernel.get_actor("found") == counter
        assert "found" in kernel.list_named_actors()

    def test_name_is_found_before_the_constructor_has_run(self) -> None:
        @kernel.remote
        def slow() -> int:
            import time

            time.sleep(0.3)
            return 3

        counter = Counter.options(name="early").remote(slow.remote())
        assert kernel.get(kernel.get_actor("early").increment.remote()) == 4
        del counter

    def test_tasks_and_actors_find_names_of_their_driver(self) -> None:
        @kernel.remote
        def from_task() -> int:
            return kernel.get(kernel.get_actor("shared").increment.remote())

        @kernel.remote
        class Finder:
            def find(self) -> int:
                return kernel.get(kernel.get_actor("shared").increment.remote())

            def make(self) -> Any:
                self.made = Counter.options(name="made inside").remote(10)
                return self.made

        counter = Counter.options(name="shared").remote()
        assert kernel.get(from_task.remote()) == 1
        finder = Finder.remote()
        assert kernel.get(finder.find.remote()) == 2
        kernel.get(finder.make.remote())
        assert kernel.get(kernel.get_actor("made inside").increment.remote()) == 11
        del counter

    def test_taken_name_is_refused(self) -> None:
        counter = Counter.options(name="taken").remote()
        with pytest.raises(NameTakenError, match=r"'taken' lives in namespace.*get_if_exists=True"):
            Counter.options(name="taken").remote()
        assert kernel.get(counter.increment.remote()) == 1

    def test_nobody_of_that_name(self) -> None:
        counter = Counter.options(name="parameter-server").remote()
        with pytest.raises(ActorNotFoundError, match=r"no actor named 'parameter_server'.*did you mean 'parameter-se"):
            kernel.get_actor("parameter_server")
        with pytest.raises(ValueError, match="no actor named 'x' lives in namespace 'elsewhere'"):
            kernel.get_actor("x", namespace="elsewhere")
        del counter

    def test_namespaces_keep_names_apart(self) -> None:
        one = Counter.options(name="same", namespace="one").remote(1)
        two = Counter.options(name="same", namespace="two").remote(2)
        assert kernel.get(kernel.get_actor("same", namespace="one").increment.remote()) == 2
        assert kernel.get(kernel.get_actor("same", namespace="two").increment.remote()) == 3
        with pytest.raises(ActorNotFoundError, match="one of that name lives in namespace 'one'"):
            kernel.get_actor("same")
        assert "same" not in kernel.list_named_actors()
        rows = kernel.list_named_actors(all_namespaces=True)
        assert {row["namespace"] for row in rows if row["name"] == "same"} == {"one", "two"}
        del one, two

    def test_get_if_exists_makes_one_and_then_finds_it(self) -> None:
        shared = Counter.options(name="once", get_if_exists=True)
        first, second = shared.remote(), shared.remote(100)
        assert first == second
        assert kernel.get([first.increment.remote(), second.increment.remote()]) == [1, 2]

    def test_get_if_exists_when_many_race(self) -> None:
        @kernel.remote
        def racer(number: int) -> tuple[Any, int]:
            counter = Counter.options(name="raced", get_if_exists=True, lifetime="detached").remote()
            return counter, kernel.get(counter.increment.remote())

        found: list[Any] = []

        def create() -> None:
            found.append(Counter.options(name="raced too", get_if_exists=True).remote())

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1 and len(found) == 8
        results = kernel.get([racer.remote(number) for number in range(8)])
        assert len({handle for handle, _ in results}) == 1
        assert sorted(value for _, value in results) == list(range(1, 9))
        kernel.kill(results[0][0])

    def test_options_that_need_a_name(self) -> None:
        with pytest.raises(OptionError, match='lifetime="detached" needs a name'):
            Counter.options(lifetime="detached").remote()
        with pytest.raises(OptionError, match="get_if_exists=True needs a name"):
            Counter.options(get_if_exists=True).remote()

    def test_name_is_free_when_the_last_handle_is_gone(self, eventually: Callable[..., Any]) -> None:
        counter = Counter.options(name="short").remote()
        kernel.get(counter.increment.remote())
        del counter

        def gone() -> bool:
            return "short" not in kernel.list_named_actors()

        eventually(gone)
        assert kernel.get(Counter.options(name="short").remote(7).increment.remote()) == 8

    def test_handle_by_name_keeps_the_actor(self) -> None:
        counter = Counter.options(name="kept").remote()
        kernel.get(counter.increment.remote())
        found = kernel.get_actor("kept")
        del counter
        assert kernel.get(found.increment.remote()) == 2

    def test_detached_actor_needs_no_handle(self, eventually: Callable[..., Any]) -> None:
        kernel.get(Counter.options(name="detached", lifetime="detached").remote().increment.remote())
        assert kernel.get(kernel.get_actor("detached").increment.remote()) == 2
        kernel.kill(kernel.get_actor("detached"))
        with pytest.raises(ActorNotFoundError):
            kernel.get_actor("detached")

    def test_tasks_of_a_detached_actor_are_in_its_namespace(self) -> None:
        @kernel.remote
        def look() -> tuple[str, list[str]]:
            return kernel.get_runtime_context().namespace, kernel.list_named_actors()

        @kernel.remote
        class Lasting:
            def send_a_task(self) -> tuple[str, list[str]]:
                return kernel.get(look.remote())

        lasting = Lasting.options(name="lasting", lifetime="detached").remote()
        namespace, names = kernel.get(lasting.send_a_task.remote())
        assert namespace == kernel.get_runtime_context().namespace
        assert "lasting" in names
        kernel.kill(lasting)

    def test_failed_constructor_frees_the_name(self) -> None:
        @kernel.remote
        class Broken:
            def __init__(self) -> None:
                raise OSError("no disk")

            def ok(self) -> None:
                return None

        broken = Broken.options(name="broken").remote()
        with pytest.raises(OSError, match="no disk"):
            kernel.get(broken.ok.remote())
        with pytest.raises(ActorNotFoundError):
            kernel.get_actor("broken")


# -- several drivers ---------------------------------------------------------------------------------------------------


@contextmanager
def staying_session(root: str) -> Iterator[str]:
    """A session that no driver owns, as `kernel start --head` makes it; yields its directory."""
    token = make_token()
    directory = make_session(token, stays=True, given=root)
    resources = {"CPU": 2.0}
    config = AgentConfig(directory, token, os.urandom(8), ephemeral=False, resources=resources, store_bytes=64 << 20)
    agent = start_agent(config, stays=True)
    try:
        await_agent(agent, directory)
        yield directory
    finally:
        family = [agent.pid, *descendants_of(agent.pid)]
        for pid in family:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        agent.wait()


PRELUDE = """
import kernel, os, sys, time, signal

@kernel.remote
class Counter:
    def __init__(self, start=0):
        self.value = start
    def increment(self):
        self.value += 1
        return self.value
    def pid(self):
        return os.getpid()
    def child(self):
        self.made = Counter.options(name="child").remote(100)
        return kernel.get(self.made.increment.remote())
    def task(self):
        return kernel.get(double.remote(21))

@kernel.remote
def double(x):
    return 2 * x
"""


def start_driver(root: str, body: str, **options: Any) -> subprocess.Popen[str]:
    """Start a program that joins the session, and may print."""
    options = {"address": "auto", **options}
    code = PRELUDE + f"kernel.init(**{options!r})\n" + textwrap.dedent(body)
    environment = {**os.environ, "KERNEL_TMPDIR": root}
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)


def run_driver(root: str, body: str, **options: Any) -> list[str]:
    """Run a program to its end; return what it printed, split."""
    driver = start_driver(root, body, **options)
    output, _ = driver.communicate(timeout=SECONDS)
    assert driver.returncode == 0, output
    return output.split()


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import shutil
    import tempfile

    path = tempfile.mkdtemp(prefix="kt", dir="/tmp")
    monkeypatch.setenv("KERNEL_TMPDIR", path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_detached_actors_outlive_their_driver_and_others_do_not(root: str, eventually: Callable[..., Any]) -> None:
    first = """
        kept = Counter.options(name="kept", lifetime="detached", namespace="all").remote(10)
        lost = Counter.options(name="lost", namespace="all").remote()
        print(*kernel.get([kept.increment.remote(), kept.pid.remote(), lost.pid.remote()]))
    """
    second = """
        kept = kernel.get_actor("kept", namespace="all")
        print(*kernel.get([kept.increment.remote(), kept.pid.remote()]))
        try:
            kernel.get_actor("lost", namespace="all")
        except kernel.exceptions.ActorNotFoundError:
            print("lost")
        print(kernel.get(kept.child.remote()), kernel.get(kept.task.remote()))
    """
    third = """
        child = kernel.get_actor("child", namespace="all")
        print(kernel.get(child.increment.remote()))
        kernel.kill(kernel.get_actor("kept", namespace="all"))
        while kernel.list_named_actors(all_namespaces=True):
            time.sleep(0.01)
    """
    with staying_session(root):
        value, pid, lost_pid = run_driver(root, first)
        assert value == "11"
        eventually(lambda: not is_alive(int(lost_pid)))
        assert run_driver(root, second, namespace="second") == ["12", pid, "lost", "101", "42"]
        assert run_driver(root, third) == ["102"]
        eventually(lambda: not is_alive(int(pid)))


def test_a_detached_actor_keeps_the_surroundings_of_its_own_program(root: str, eventually: Callable[..., Any]) -> None:
    """Though another program made one in the same namespace later: after a restart, and in its tasks."""
    body = """
        os.chdir({folder!r})
        sys.path.insert(0, os.getcwd())
        kernel.init(address="auto", namespace="shared")

        @kernel.remote
        def look():
            import surroundings
            return surroundings.OF, os.environ["KT_PROGRAM"], os.getcwd()

        @kernel.remote(lifetime="detached", max_restarts=1, num_cpus=0)
        class Looking:
            def __init__(self):
                self.found = kernel.get(look.remote())
            def look(self):
                return os.getpid(), self.found

        kept = Looking.options(name=sys.argv[1]).remote()
        print(kernel.get(kept.look.remote())[0])
    """
    with staying_session(root):
        pids = []
        for name in ("one", "two"):
            folder = Path(root, name)
            folder.mkdir()
            (folder / "surroundings.py").write_text(f"OF = {name!r}\n")
            program = [sys.executable, "-c", PRELUDE + textwrap.dedent(body).format(folder=str(folder)), name]
            environment = {**os.environ, "KERNEL_TMPDIR": root, "KT_PROGRAM": name}
            pids.append(
                int(subprocess.run(program, capture_output=True, check=True, timeout=SECONDS, env=environment).stdout)
            )
        os.kill(pids[0], signal.SIGKILL)
        eventually(lambda: not is_alive(pids[0]))
        found = "print(*kernel.get(kernel.get_actor('{}').look.remote())[1])"
        for name in ("one", "two"):
            assert run_driver(root, found.format(name), namespace="shared") == [name, name, f"{root}/{name}"]


def test_drivers_have_namespaces_of_their_own_unless_they_share_one(root: str) -> None:
    body = """
        Counter.options(name="mine", lifetime="detached").remote()
        print(sorted(kernel.list_named_actors()), len(kernel.list_named_actors(all_namespaces=True)))
    """
    with staying_session(root):
        assert run_driver(root, body) == ["['mine']", "1"]
        assert run_driver(root, body) == ["['mine']", "2"]
        assert run_driver(root, body, namespace="shared") == ["['mine']", "3"]
        find = "print(kernel.get(kernel.get_actor('mine').increment.remote()))"
        assert run_driver(root, find, namespace="shared") == ["1"]


def test_two_drivers_share_a_detached_actor_at_once(root: str) -> None:
    body = """
        counter = Counter.options(name="both", lifetime="detached", get_if_exists=True).remote()
        print(*kernel.get([counter.increment.remote() for _ in range(100)]))
    """
    with staying_session(root):
        drivers = [start_driver(root, body, namespace="shared") for _ in range(2)]
        outputs = [driver.communicate(timeout=SECONDS)[0] for driver in drivers]
        numbers = [[int(number) for number in output.split()] for output in outputs]
        assert sorted(numbers[0] + numbers[1]) == list(range(1, 201))
        assert all(one == sorted(one) for one in numbers)


def test_killed_driver_takes_its_actors_along_and_leaves_detached_ones(
    root: str, eventually: Callable[..., Any]
) -> None:
    body = """
        mine = [Counter.remote() for _ in range(3)]
        kept = Counter.options(name="kept", lifetime="detached", max_restarts=1).remote(5)
        print(*kernel.get([actor.pid.remote() for actor in [*mine, kept]]), flush=True)
        time.sleep(600)
    """
    with staying_session(root):
        driver = start_driver(root, body, namespace="shared")
        assert driver.stdout is not None
        *mine, kept = [int(pid) for pid in driver.stdout.readline().split()]
        driver.kill()
        driver.wait()
        eventually(lambda: not any(is_alive(pid) for pid in mine))
        found = "print(kernel.get(kernel.get_actor('kept').pid.remote()))"
        assert run_driver(root, found, namespace="shared") == [str(kept)]
        os.kill(kept, signal.SIGKILL)
        eventually(lambda: not is_alive(kept))
        restarted = "print(kernel.get(kernel.get_actor('kept').increment.remote()))"
        assert run_driver(root, restarted, namespace="shared") == ["6"]


def test_killed_driver_leaves_nothing_of_a_session_of_its_own(root: str, eventually: Callable[..., Any]) -> None:
    body = """
        actors = [Counter.remote() for _ in range(3)]
        actors.append(Counter.options(name="kept", lifetime="detached").remote())
        kernel.get([actor.pid.remote() for actor in actors])
        print("ready", flush=True)
        time.sleep(600)
    """
    driver = start_driver(root, body, address=None)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    family = descendants_of(driver.pid)
    assert len(family) >= 6
    driver.kill()
    driver.wait()
    eventually(lambda: not any(is_alive(pid) for pid in family))
    eventually(lambda: not list(Path(root).glob("kernel-*/session_*")))


def test_exit_handlers_run_when_the_driver_ends(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        @kernel.remote
        class Tidy:
            def __init__(self, path):
                import atexit
                atexit.register(lambda: open(path, "w").write("tidy"))
            def ok(self):
                return True

        tidy = Tidy.remote(os.environ["KERNEL_TMPDIR"] + "/tidy")
        print(kernel.get(tidy.ok.remote()))
    """
    with constants({"kernel_processes.node.agent.UNOBSERVED_SECONDS": SECONDS}):  # usually half a second
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        assert run_driver(root, body, address=None) == ["True"]
    assert Path(root, "tidy").read_text() == "tidy"


def test_handles_do_not_survive_their_session(fresh_session: Callable[..., Any]) -> None:
    fresh_session()
    old = Counter.remote()
    kernel.get(old.increment.remote())
    kernel.shutdown()
    fresh_session()
    with pytest.raises(ActorDiedError, match="ended long ago"):
        kernel.get(old.increment.remote(), timeout=SECONDS)
    assert kernel.get(Counter.remote().increment.remote()) == 1
