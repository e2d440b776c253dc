"""What may be given as `py_executable`, and which command a node makes of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_environment_interpreter.command import command_on_node, words_of
from kernel_environment_interpreter.interpreter import worker_start

from kernel_spec.errors import RuntimeEnvError


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("python3", ["python3"]),
        (Path("/opt/mine/bin/python"), ["/opt/mine/bin/python"]),
        ("uv run --with 'rich>=13'", ["uv", "run", "--with", "rich>=13"]),
        (["/a path/python", "-s"], ["/a path/python", "-s"]),
        (("python3", "-X", "dev"), ["python3", "-X", "dev"]),
    ],
)
def test_a_command_is_text_or_words(value: Any, words: list[str]) -> None:
    assert words_of(value) == words == words_of(words)


@pytest.mark.parametrize("value", [5, "", "  ", [], ["python3", 5], ["python3", ""], {"path": "python3"}])
def test_what_is_no_command_is_refused(value: Any) -> None:
    with pytest.raises(RuntimeEnvError, match=r"runtime_env\['py_executable'\] must be the path of an interpreter"):
        words_of(value)


def test_a_quote_that_is_not_closed_is_refused() -> None:
    with pytest.raises(RuntimeEnvError, match='is "python \'x", which is no command: No closing quotation'):
        words_of("python 'x")


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with programs that can be found."""
    for name in ("python3", "uv", "nice"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["python3", "-s"], ["{}/python3", "-s"]),
        (["uv", "run"], ["{}/uv", "run", "python"]),
        (["{}/uv", "run", "--with", "rich"], ["{}/uv", "run", "--with", "rich", "python"]),
        (["uv", "run", "python3.11"], ["{}/uv", "run", "python3.11"]),
        (["nice", "-n", "5", "python3"], ["{}/nice", "-n", "5", "python3"]),
    ],
)
def test_a_program_is_found_and_uv_runs_python(programs: str, words: list[str], command: list[str]) -> None:
    assert command_on_node([word.format(programs) for word in words], programs) == [
        word.format(programs) for word in command
    ]


def test_a_program_that_a_node_lacks_is_named(programs: str) -> None:
    said = f"names the program 'pythons', which this node does not have on its PATH ({programs}); install it on each"
    with pytest.raises(RuntimeEnvError, match=re.escape(said)):
        command_on_node(["pythons"], programs)
    with pytest.raises(RuntimeEnvError, match="names the program '/no/python', which this node does not have; install"):
        command_on_node(["/no/python"], programs)


def test_the_nodes_own_interpreter_needs_nothing_but_itself(tmp_path: Path) -> None:
    start = worker_start([sys.executable], str(tmp_path))
    assert (start.python, start.paths, start.modules, list(tmp_path.iterdir())) == (sys.executable, (), (), [])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no such lock; exit 3", "ended with exit code 3, and wrote at last:\n  no such lock"),
        ("true", "has run no interpreter, and wrote at last: nothing"),
        (
            'echo \'kernel-interpreter:["2.7", "cpython", []]\'',
            "runs cpython 2.7, and this node runs cpython {}.{}; the two must be of one version: name an interpreter",
        ),
        ("echo a; echo b", "has run no interpreter, and wrote at last:\n  a\n  b"),
    ],
)
def test_a_command_that_runs_no_fitting_interpreter_is_refused(tmp_path: Path, script: str, said: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    with pytest.raises(RuntimeEnvError, match=re.escape(said.format(*sys.version_info[:2]))):
        worker_start([str(program)], str(tmp_path))


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o700)
    with pytest.raises(RuntimeEnvError, match=r"program` can't be run on this node: \[Errno 8\] Exec format error"):
        worker_start([str(program)], str(tmp_path))
