"""What is run in a worker's place on the node, and in the container: the programs themselves, without a session."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_container import entry, launch
from kernel_environment_container.contents import birth_of

SECONDS = 120.0
ENTRY, LAUNCH = (os.path.abspath(str(module.__file__)) for module in (entry, launch))


def started(message: dict[str, Any], client: int) -> subprocess.Popen[bytes]:
    """Start the program of the container; `client` is the process outside."""
    command = [sys.executable, ENTRY, "run", str(client), str(birth_of(client))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps({"variables": {}, "files": {}, **message}))
    process.stdin.close()
    process.stdin = None
    return process


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_interpreter_has_its_arguments_variables_and_files() -> None:
    program = (
        "import os, sys; file = open(int(sys.argv[1]), 'rb'); "
        "print(sys.argv[1:], os.environ['GIVEN'], file.read(), [sys.stdin.read()])"
    )
    message = {"arguments": ["-c", program, "9"], "variables": {"GIVEN": "yes"}, "files": {9: b"the order"}}
    out, _ = started(message, os.getpid()).communicate(timeout=SECONDS)
    assert out.decode() == "['9'] yes b'the order' ['']\n"


@pytest.mark.parametrize(("program", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_end_of_the_interpreter_is_passed_on(program: str, code: int) -> None:
    assert started({"arguments": ["-c", program]}, os.getpid()).wait(SECONDS) == code


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
    process = started({"arguments": ["-c", program, str(ready)]}, os.getpid())
    wait_until(ready.exists)
    process.terminate()
    assert process.wait(SECONDS) == 5


def test_a_container_that_does_not_show_the_process_outside_runs_nothing() -> None:
    done = subprocess.run([sys.executable, ENTRY, "run", "999999999", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("the container does not show the process that started it; it must share")


def test_a_container_says_what_it_has() -> None:
    here = os.getpid()
    command = [sys.executable, ENTRY, "describe", str(here), str(birth_of(here))]
    done = subprocess.run(command, env={"ONE": "1"}, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found["variables"]["ONE"] == "1" and found["sees"] is True
    assert found["packages"] and all(os.path.isabs(path) for path in found["packages"])
    assert entry.describe(here, 5)["sees"] is False


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
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}/library", "LD_PRELOAD": ""}
    process = subprocess.Popen(
        [sys.executable, LAUNCH, str(tmp_path), "-c", program, str(descriptor)],
        env=variables, pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    os.close(descriptor)
    birth = birth_of(process.pid)
    out, _ = process.communicate(timeout=SECONDS)
    assert out.decode() == f"/of/the/image:{tmp_path}/library {process.pid}-{birth}  the order\n"
