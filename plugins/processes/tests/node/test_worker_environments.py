"""What a worker is given in an environment: fields combined, built in processes of their own, and removed again."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.plugins import PluginManager
from kernel_processes.node import environment_builds
from kernel_processes.node.worker_environments import PLAIN, WorkerEnvironments, combine
from kernel_processes.transport.reactor import Reactor
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError
from plugins.processes.tests.transport.test_background import turn_until

BUILDER = """
    import os, subprocess, sys, threading, time
    from kernel_spec import CONTRACTS, hookimpl
    from kernel_spec.environments import WorkerStart
    from kernel_spec.errors import RuntimeEnvError

    class Notes:
        field = "notes"

        def __init__(self, *, build_seconds: float = 60.0, cache_bytes: float = 1e9):
            self.build_seconds, self.cache_bytes = build_seconds, cache_bytes
            self.lock = threading.Lock() if cache_bytes == 2.0 else None

        def check(self, value): ...
        def prepare(self, value, program): return value
        def packages(self, prepared): return ()

        def build(self, prepared, place):
            with open(os.path.join(place.directory, "built"), "a") as file:
                print(os.getpid(), file=file)
            print("building", prepared)
            if prepared == "wrong":
                raise RuntimeEnvError("runtime_env['notes'] is wrong")
            if prepared == "raises":
                raise KeyError("of the plugin")
            if prepared == "exits":
                os._exit(3)
            if prepared.startswith("hangs"):
                child = subprocess.Popen(["sleep", "1000"])
                with open(prepared.removeprefix("hangs "), "w") as file:
                    file.write(f"{child.pid}\\n")
                child.wait()
            if prepared == "shared":
                return WorkerStart(variables={"SHARED": os.pathsep.join(place.shared)})
            return WorkerStart(variables={"NOTES": place.directory})

    @hookimpl
    def kernel_contracts():
        return {"environment": CONTRACTS["environment"]}

    @hookimpl
    def kernel_environments():
        return {"notes": Notes}
"""


class Bench:
    """The environments of a node without a head. `outcomes` are what was told of each that was asked for."""

    def __init__(self, directory: Path, options: dict[str, Any], spill_directory: str | None = None) -> None:
        (directory / "logs").mkdir()
        self.directory = directory
        self.reactor = Reactor()
        nothing = directory / "kernel.toml"
        nothing.write_text("")
        manager = PluginManager.discover(
            options={"notes": options} if options else {},
            environment={"KERNEL_CONFIG": str(nothing)},
            installed=[("notes", "environment_notes_for_tests")],
        )
        self.in_use: set[str] = set()
        self.sent: list[Any] = []
        self.environments = WorkerEnvironments(
            str(directory), self.reactor, self.sent.append, manager, lambda: self.in_use, spill_directory
        )
        self.outcomes: list[Any] = []

    def ask(self, key: str, description: dict[str, Any]) -> None:
        self.environments.learn(key, description)
        self.environments.make_ready(key, self.outcomes.append)

    def made(self, key: str, description: dict[str, Any]) -> Any:
        expected = len(self.outcomes) + 1
        self.ask(key, description)
        turn_until(self.reactor, lambda: len(self.outcomes) == expected)
        return self.outcomes[-1]

    def built(self) -> list[Path]:
        return [path for path in (self.directory / "environments").iterdir() if not path.name.startswith(".")]


@pytest.fixture
def make_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "environment_notes_for_tests.py").write_text(textwrap.dedent(BUILDER))
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), *filter(None, sys.path)]))
    benches: list[Bench] = []

    def make(spill_directory: str | None = None, **options: Any) -> Bench:
        directory = tmp_path / f"session-{len(benches)}"
        directory.mkdir()
        benches.append(Bench(directory, options, spill_directory))
        return benches[-1]

    yield make
    for bench in benches:
        bench.environments.close()
        bench.reactor.close()


def test_no_environment_is_there_at_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.environments.make_ready("", bench.outcomes.append)
    bench.ask("variables", {"env_vars": {"A": "1"}})
    assert bench.outcomes == [PLAIN, WorkerStart(variables={"A": "1"})]


def test_a_field_is_built_once_by_a_process_of_its_own(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    for key in ("one", "two", "three"):
        bench.ask(key, {"notes": "x", "env_vars": {"KEY": key}})
    assert bench.outcomes == [], "the loop has not waited"
    turn_until(bench.reactor, lambda: len(bench.outcomes) == 3)
    (place,) = bench.built()
    assert bench.outcomes == [
        WorkerStart(variables={"NOTES": str(place), "KEY": key}) for key in ("one", "two", "three")
    ]
    (pid,) = (place / "built").read_text().split()
    assert int(pid) != os.getpid()
    assert bench.made("four", {"notes": "x"}) == WorkerStart(variables={"NOTES": str(place)})
    assert "building x" in (bench.directory / "logs" / "environments.log").read_text()


def test_a_builder_is_told_what_workers_must_see(make_bench: Callable[..., Bench], tmp_path: Path) -> None:
    spilled = str(tmp_path / "spilled")
    os.mkdir(spilled)
    for spill_directory, seen in ((None, []), (spilled, [spilled]), ("s3://bucket/folder", [])):
        bench = make_bench(spill_directory)
        start = bench.made("shared", {"notes": "shared"})
        assert start.variables["SHARED"].split(os.pathsep) == [str(bench.directory), *seen]


def test_a_refusal_a_fault_and_an_end_of_the_process_are_told_apart(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    assert str(bench.made("wrong", {"notes": "wrong"})) == "runtime_env['notes'] is wrong"
    text = str(bench.made("raises", {"notes": "raises"}))
    assert text.startswith(
        "the environment 'notes' of the plugin 'notes': its build() raised KeyError: 'of the plugin'"
    )
    assert "environment_notes_for_tests.py" in text
    log = bench.directory / "logs" / "environments.log"
    assert str(bench.made("exits", {"notes": "exits"})) == (
        "the process in which the environment 'notes' of the plugin 'notes' builds ended with exit code 3; "
        f"{log} has what it wrote"
    )
    assert [path.name[:6] for path in bench.built()] == ["notes-"], "what was refused leaves nothing, a crash its files"


def test_a_builder_that_can_not_be_sent_is_named(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(cache_bytes=2.0)
    text = str(bench.made("any", {"notes": "x"}))
    assert text.startswith("the environment 'notes' of the plugin 'notes' can't build in a process of its own: ")
    assert "it can't be sent there: TypeError(" in text and "lock" in text


def test_what_takes_too_long_is_ended_with_all_that_it_has_started(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(build_seconds=3.0)
    note = bench.directory / "child"
    text = str(bench.made("hangs", {"notes": f"hangs {note}"}))
    assert "builds took longer than 3 s and was ended" in text
    child = int(note.read_text())
    turn_until(bench.reactor, lambda: not Path(f"/proc/{child}").exists() or is_zombie(child))


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_what_nobody_uses_is_removed_when_there_is_no_room(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_builds, "TRIM_SECONDS", 0.05)
    bench = make_bench(cache_bytes=1.0)
    bench.in_use = {"one"}
    one = bench.made("one", {"notes": "x"}).variables["NOTES"]
    bench.in_use = {"one", "two"}
    two = bench.made("two", {"notes": "y"}).variables["NOTES"]
    assert sorted(map(str, bench.built())) == sorted([one, two]), "workers run in both"
    bench.in_use = {"two"}
    turn_until(bench.reactor, lambda: [str(path) for path in bench.built()] == [two])
    bench.in_use = {"one", "two"}
    assert bench.made("one", {"notes": "x"}).variables["NOTES"] == one, "it is built anew"
    assert os.path.isfile(os.path.join(one, "built"))


def test_a_field_that_nobody_takes_here_says_so(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.ask("unknown", {"notez": "x"})
    assert str(bench.outcomes[0]) == "runtime_env has no field 'notez'; did you mean 'notes'?"


def test_fields_are_combined() -> None:
    first = WorkerStart(paths=("/work",), directory="/work")
    variables = WorkerStart(variables={"PATH": "/mine:${PATH}", "A": "own"})
    built = WorkerStart({"PATH": "/venv/bin:${PATH}", "A": "builder's", "B": "b"}, ("/venv/site",), "", "/venv/python")
    both = combine([("env_vars", variables), ("working_dir", first), ("pip", built)])
    assert both.variables == {"PATH": "/mine:/venv/bin:${PATH}", "A": "own", "B": "b"}
    assert (both.paths, both.directory, both.python) == (("/work", "/venv/site"), "/work", "/venv/python")


def test_two_interpreters_are_refused() -> None:
    with pytest.raises(RuntimeEnvError, match=r"\['conda'\] and runtime_env\['pip'\] both choose the interpreter"):
        combine([("conda", WorkerStart(python="/a")), ("pip", WorkerStart(python="/b"))])
