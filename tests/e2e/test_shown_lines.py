"""What users see of an error that nobody caught: the lines of their own program, wherever it ran."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import kernel
from kernel.testing.faults import PATIENCE_SECONDS

PROGRAM = """
import atexit, os, signal, sys, threading, time
import kernel

@kernel.remote(num_cpus=0)
def task(x):
    return x

@kernel.remote(num_cpus=0)
def interrupts(pid):
    os.kill(pid, signal.SIGINT)
    time.sleep(600)

@kernel.remote(num_cpus=0)
def items(pid):
    yield 1
    os.kill(pid, signal.SIGINT)
    time.sleep(600)

@kernel.remote
class Actor:
    def method(self, x):
        return x

kernel.init(num_cpus=1, object_store_memory=50_000_000)
pid, lock = os.getpid(), threading.Lock()
group = kernel.placement_group([{"CPU": 1}])
"""
WRONG = [
    "kernel.put(lock)", "task.remote(lock)", "task.remote(1, 2)", "Actor.remote(1)",
    "Actor.remote().method.remote(lock)", "Actor.remote().method.remote()", "Actor.remote().other.remote()",
    "kernel.wait([1])",
    "kernel.get(1)", "task.options(num_cpu=1)", "kernel.get_actor('nobody')", "kernel.put(1) + 1",
    "kernel.kill(1)", "kernel.cancel(1)",
    "kernel.init(num_cpu=1)", "kernel.remote(1)", "kernel.placement_group([{'CPU': -1}])", "task(1)",
]  # fmt: skip
STRUCK = [
    "kernel.get(interrupts.remote(pid))", "kernel.get([interrupts.remote(pid)])",
    "kernel.wait([interrupts.remote(pid)])", "interrupts.remote(pid) and time.sleep(600)",
    "for item in items.remote(pid): pass",
    "interrupts.remote(pid); group.wait() and kernel.placement_group([{'CPU': 9}]).wait(600)",
    "interrupts.remote(pid)\nwhile True: kernel.put(1)",
    "interrupts.remote(pid)\nwhile True: kernel.get(task.remote(1))",
]  # fmt: skip


def run(*arguments: str, given: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python; return what came of it."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path, **environment}, input=given,
        capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip


def files_in(shown: str) -> list[str]:
    """Return the files of the lines that a traceback shows, without Python's own prefix of `-m` and threads."""
    return [line.split('"')[1] for line in shown.splitlines() if line.startswith("  File ")]


@pytest.fixture(scope="module")
def shown_in_one_session() -> dict[str, str]:
    """What each of WRONG shows, in a program that goes on after each as Python's prompt does."""
    each = "\n".join(f"shows({line!r})" for line in WRONG)
    program = PROGRAM + textwrap.dedent("""
        def shows(source):
            print("=====", source, file=sys.stderr)
            try:
                exec(compile(source, "<user>", "exec"), globals())
            except BaseException:
                sys.excepthook(*sys.exc_info())
    """)
    shown = run("-c", program + each).stderr
    return {part.partition("\n")[0].strip(): part for part in shown.split("=====")[1:]}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_use_shows_the_users_lines_only(shown_in_one_session: dict[str, str], line: str) -> None:
    shown = shown_in_one_session[line]
    assert "Traceback (most recent call last)" in shown
    assert files_in(shown) == ["<string>", "<user>"], shown


@pytest.mark.parametrize("line", STRUCK)
def test_a_ctrl_c_shows_the_users_line_only(line: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM + line)
    shown = run(str(script)).stderr
    assert set(files_in(shown)) == {str(script)}, shown
    assert shown.rstrip().endswith("KeyboardInterrupt") and shown.count("Traceback") == 1, shown


def test_a_ctrl_c_while_the_program_ends_shows_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        PROGRAM
        + textwrap.dedent("""
        from kernel.api import session
        shutdown = session.shutdown
        def interrupted_amid():
            shutdown()
            os.kill(pid, signal.SIGINT)
            time.sleep(600)
        session.shutdown = interrupted_amid
    """)
    )
    assert run(str(script)).stderr == ""


@pytest.mark.parametrize("way", ["-c", "-m", "prompt"])
def test_it_is_the_same_however_the_program_is_started(way: str, tmp_path: Path) -> None:
    (tmp_path / "started.py").write_text(PROGRAM + WRONG[0])
    if way == "-c":
        shown = run("-c", PROGRAM + WRONG[0]).stderr
    elif way == "-m":
        path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        shown = run("-m", "started", PYTHONPATH=path).stderr
    else:
        shown = run(
            "-i", "-q", given=f"import kernel, threading\n{WRONG[0].replace('lock', 'threading.Lock()')}\n"
        ).stderr
    assert "SerializationError" in shown and "operations.py" not in shown, shown
    users = [file for file in files_in(shown) if not file.startswith("<frozen")]
    assert users == [str(tmp_path / "started.py") if way == "-m" else "<stdin>" if way == "prompt" else "<string>"], (
        shown
    )


def test_a_thread_shows_the_same_also_what_it_came_from() -> None:
    shown = run("-c", PROGRAM + textwrap.dedent("""
        def work():
            try:
                kernel.put(lock)
            except TypeError as error:
                raise RuntimeError("mine") from error
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    """)).stderr  # fmt: skip
    assert "can't pickle the value" in shown and "direct cause" in shown and "RuntimeError: mine" in shown, shown
    own = os.path.dirname(kernel.__file__)
    assert not [file for file in files_in(shown) if file.startswith(own)], shown


def test_all_lines_are_shown_to_those_who_want_them() -> None:
    for program, environment in (
        (PROGRAM, {"KERNEL_TRACEBACK": "1"}),
        (PROGRAM.replace("init(", 'init(logging_level="debug", '), {}),
    ):
        shown = run("-c", program + WRONG[0], **environment).stderr
        assert [os.path.basename(file) for file in files_in(shown)][:2] == ["<string>", "operations.py"], shown
        assert "in _dumps_capturing" in shown, shown


@pytest.mark.parametrize("program", ["import kernel\n", PROGRAM])
def test_a_ctrl_c_ends_a_program_as_python_does(program: str) -> None:
    for line in (
        "raise KeyboardInterrupt",
        "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(600)",
    ):
        assert run("-c", program + line).returncode == -signal.SIGINT


def test_an_error_of_a_program_that_only_imports_kernel_loads_nothing() -> None:
    looks = "import atexit, sys, kernel\natexit.register(lambda: print(*sys.modules))\n"
    assert "kernel.runtime" not in run("-c", looks + "1 / 0").stdout
    assert "kernel.runtime" in run("-c", looks + "kernel.init(num_cpu=1)").stdout
