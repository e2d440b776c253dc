"""What is run in a worker's place on the node, and in the container: in forks of the test, without a session."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from kernel_environment_container import entry, launch
from kernel_environment_container.contents import birth_of

SECONDS = 120.0
ENTRY = os.path.abspath(str(entry.__file__))


class Fork:
    """A fork of this process that runs the `main` of a program, with standard input and output of its own."""

    def __init__(
        self,
        main: Callable[[], int | None],
        arguments: Sequence[str],
        output: Path,
        given: bytes = b"",
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._output = output
        self.pid = os.fork()
        if self.pid:
            return
        try:
            with tempfile.TemporaryFile() as file:
                file.write(given)
                file.seek(0)
                os.dup2(file.fileno(), 0)
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
            sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)))
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")))
            sys.argv = ["program", *arguments]
            os.environ.update(variables)
            code = main()
            sys.stdout.flush()
            os._exit(code or 0)
        finally:
            os._exit(99)

    def wait(self) -> int:
        """Return the exit code."""
        found: list[int] = []

        def ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            found.append(status)
            return pid != 0

        wait_until(ended)
        return os.waitstatus_to_exitcode(found[-1])

    def written(self) -> str:
        """Return what was written, once the exit code was 0."""
        assert self.wait() == 0
        return self._output.read_text()


def started(message: Mapping[str, Any], client: int, output: Path) -> Fork:
    """Start the program of the container; `client` is the process outside."""
    given = pickle.dumps({"variables": {}, "files": {}, **message})
    return Fork(entry.main, ["run", str(client), str(birth_of(client))], output / "output", given)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_interpreter_has_its_arguments_variables_and_files(tmp_path: Path) -> None:
    program = (
        "import os, sys; file = open(int(sys.argv[1]), 'rb'); "
        "print(sys.argv[1:], os.environ['GIVEN'], file.read(), [sys.stdin.read()])"
    )
    message = {"arguments": ["-c", program, "9"], "variables": {"GIVEN": "yes"}, "files": {9: b"the order"}}
    assert started(message, os.getpid(), tmp_path).written() == "['9'] yes b'the order' ['']\n"


@pytest.mark.parametrize(("program", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_end_of_the_interpreter_is_passed_on(program: str, code: int, tmp_path: Path) -> None:
    assert started({"arguments": ["-c", program]}, os.getpid(), tmp_path).wait() == code


@pytest.mark.parametrize("with_descriptors", [True, False])
def test_the_interpreter_ends_when_the_process_outside_does(
    with_descriptors: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not with_descriptors:
        monkeypatch.setattr(entry, "descriptor_of", lambda process: None)
    client, worker = (subprocess.Popen(["sleep", "1000"]) for _ in range(2))
    birth = birth_of(client.pid)
    assert birth is not None
    client.kill()
    status = entry.await_end(worker.pid, client.pid, birth)
    assert os.WTERMSIG(status) == signal.SIGKILL
    client.wait()


def test_signals_reach_the_interpreter(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    program = (
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(5)); open(sys.argv[1], 'w').close(); signal.pause()"
    )
    process = started({"arguments": ["-c", program, str(ready)]}, os.getpid(), tmp_path)
    wait_until(ready.exists)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == 5


def test_a_container_that_does_not_show_the_process_outside_runs_nothing(tmp_path: Path) -> None:
    fork = Fork(entry.main, ["run", "999999999", "5"], tmp_path / "output")
    assert fork.wait() == 1
    text = (tmp_path / "output").read_text()
    assert text == "the container does not show the process that started it; it must share the node's process ids\n"


def test_a_container_says_what_it_has(tmp_path: Path) -> None:
    here = os.getpid()
    arguments = ["describe", str(here), str(birth_of(here))]
    found = json.loads(Fork(entry.main, arguments, tmp_path / "output", variables={"ONE": "1"}).written())
    assert found["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found["kernel"] == importlib.metadata.version("kernel-spec")
    assert found["variables"]["ONE"] == "1" and found["sees"] is True
    assert found["packages"] and all(path in sys.path for path in found["packages"])
    assert entry.describe(here, 5)["sees"] is False


def test_a_container_without_kernel_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert entry.describe(os.getpid(), 5)["kernel"] == ""


def test_what_is_on_the_import_path_is_mounted_in_places_of_its_own(tmp_path: Path) -> None:
    shared, one, two = (str(tmp_path / name) for name in ("session", "one", "two"))
    for path in (f"{shared}/package", one, two, f"{shared}-not"):
        os.makedirs(path)
    text = os.pathsep.join((f"{shared}/package", one, str(tmp_path / "missing"), one, two, f"{shared}-not"))
    mounts, paths = launch.import_paths(text, [shared], "/below")
    assert mounts == [(one, "/below/0"), (two, "/below/1"), (f"{shared}-not", "/below/2")]
    assert paths == [f"{shared}/package", "/below/0", "/below/1", "/below/2"]
    assert launch.import_paths("", [shared], "/below") == ([], [])


def test_variables_of_the_image_are_for_the_worker_and_those_of_the_node_for_the_program() -> None:
    given = {"PATH": "/image", "LD_PRELOAD": "", "TMPDIR": "", "EMPTY": "", "MINE": "1"}
    replaced = {"PATH": "/node", "LD_PRELOAD": "node.so", "TMPDIR": None}
    assert launch.variables_of(given, replaced) == {"PATH": "/image", "EMPTY": "", "MINE": "1"}
    assert launch.node_variables(given, replaced) == {
        "PATH": "/node", "LD_PRELOAD": "node.so", "EMPTY": "", "MINE": "1"
    }  # fmt: skip


def test_the_node_becomes_the_program_that_runs_the_container(tmp_path: Path) -> None:
    """The program here is this Python, which runs what a container would: what it is handed arrives."""
    start = {
        "before": ["env", "CLIENT={client}", sys.executable],
        "mount": ["-X", "{source}={target}"],
        "after": [ENTRY],
        "shared": [str(tmp_path)],
        "packages": ["/of/the/image"],
        "node_variables": {"LD_PRELOAD": None},
    }
    (tmp_path / "start.json").write_text(json.dumps(start))
    (tmp_path / "library").mkdir()
    program = (
        "import os, sys; file = open(int(sys.argv[1])); "
        "print(os.environ['PYTHONPATH'], os.environ['CLIENT'], sys.stdin.read(), file.read())"
    )
    descriptor = os.memfd_create("test")
    os.write(descriptor, b"the order")
    variables = {"PYTHONPATH": f"{tmp_path}/library", "LD_PRELOAD": ""}
    os.set_inheritable(descriptor, True)
    arguments = [str(tmp_path), "-c", program, str(descriptor)]
    fork = Fork(launch.main, arguments, tmp_path / "output", variables=variables)
    os.close(descriptor)
    birth = birth_of(fork.pid)
    assert fork.written() == f"/of/the/image:{tmp_path}/library {fork.pid}-{birth}  the order\n"


def test_what_is_mounted_has_a_directory_to_be_mounted_on(tmp_path: Path) -> None:
    start = {
        "before": ["echo"], "mount": ["{source}={target}"], "after": [], "shared": [], "packages": [],
        "node_variables": {"PYTHONPATH": None},
    }  # fmt: skip
    (tmp_path / "start.json").write_text(json.dumps(start))
    (tmp_path / "library").mkdir()
    variables = {"PYTHONPATH": f"{tmp_path}/library"}
    fork = Fork(launch.main, [str(tmp_path)], tmp_path / "output", variables=variables)
    birth = birth_of(fork.pid)
    target = tmp_path / "paths" / "0"
    assert fork.written() == f"{tmp_path}/library={target} run {fork.pid} {birth}\n"
    assert target.is_dir()
