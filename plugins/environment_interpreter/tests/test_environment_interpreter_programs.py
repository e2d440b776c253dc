"""Tasks and actors in interpreters of their own, in real sessions: what they see, and what kills end."""

from __future__ import annotations

import os
import signal
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session

SECONDS = 120.0


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with a package of its own, and with a cloudpickle that can't be used."""
    folder = tmp_path_factory.mktemp("interpreter") / "venv"
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "interpreter_greeting.py").write_text("TEXT = 'hello'\n")
    (packages / "cloudpickle").mkdir()
    (packages / "cloudpickle" / "__init__.py").write_text("raise ImportError('not the one of the node')\n")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with running_session(num_cpus=2):
        yield


@kernel.remote
def look() -> tuple[str, str, bool]:
    import interpreter_greeting

    return sys.executable, interpreter_greeting.TEXT, bool(sys.flags.dev_mode)


@kernel.remote
class Process:
    def ids(self) -> tuple[int, int]:
        return os.getpid(), os.getppid()

    def end(self) -> None:
        os._exit(3)


def test_a_task_has_the_packages_of_its_interpreter(python: str) -> None:
    seen = look.options(runtime_env={"py_executable": python}).remote()
    assert kernel.get(seen, timeout=SECONDS) == (python, "hello", False)


def test_a_command_may_have_arguments_and_other_fields_go_with_it(python: str, tmp_path: Path) -> None:
    (tmp_path / "interpreter_greeting.py").write_text("TEXT = 'of the working directory'\n")
    env = {"py_executable": [python, "-X", "dev"], "working_dir": str(tmp_path)}
    assert kernel.get(look.options(runtime_env=env).remote(), timeout=SECONDS)[1:] == ("of the working directory", True)


def start(value: Any) -> tuple[Any, int, int]:
    """Return an actor whose interpreter is run by a program that stays, its process, and that of the program."""
    actor = Process.options(runtime_env={"py_executable": value}).remote()
    return actor, *kernel.get(actor.ids.remote(), timeout=SECONDS)


@pytest.fixture
def between(python: str, tmp_path: Path) -> str:
    """A command that runs the interpreter as its child, as `uv run` does."""
    program = tmp_path / "between"
    program.write_text(f'#!/bin/sh\n"{python}" "$@"\nexit $?\n')
    program.chmod(0o700)
    return str(program)


def test_the_interpreter_ends_when_the_program_that_runs_it_is_killed(between: str) -> None:
    actor, worker, program = start(between)
    os.kill(program, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), SECONDS, "the interpreter to end")
    with pytest.raises(exceptions.ActorDiedError, match="signal 9"):
        kernel.get(actor.ids.remote(), timeout=SECONDS)


def test_a_killed_actor_leaves_neither(between: str) -> None:
    actor, worker, program = start(between)
    kernel.kill(actor)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (worker, program)), SECONDS, "both to end")


def test_an_interpreter_that_ends_is_a_worker_that_died(between: str) -> None:
    actor, _, program = start(between)
    with pytest.raises(exceptions.ActorDiedError, match="it ended with exit code 3"):
        kernel.get(actor.end.remote(), timeout=SECONDS)
    wait_until(lambda: not Path(f"/proc/{program}").exists(), SECONDS, "the program to end")


def test_what_can_not_be_run_is_the_error_of_the_task() -> None:
    refused = look.options(runtime_env={"py_executable": "no-such-python"}).remote()
    with pytest.raises(exceptions.RuntimeEnvError, match="names the program 'no-such-python', which this node"):
        kernel.get(refused, timeout=SECONDS)


def test_uv_runs_the_interpreter(python: str) -> None:
    program = f"{sys.executable} -m uv run --no-project --no-python-downloads --offline --python {python} python"
    assert kernel.get(look.options(runtime_env={"py_executable": program}).remote(), timeout=SECONDS)[1] == "hello"
