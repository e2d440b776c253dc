"""`breakpoint()` in tasks and actors: it waits, is listed, and is attached to from a terminal by `kernel debug`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from bdb import BdbQuit
from collections.abc import Iterator
from typing import Any

import pytest

import kernel
from kernel.runtime.current import get_runtime
from kernel.testing.command_line import COMMAND, CommandLine
from kernel.testing.faults import PATIENCE_SECONDS, wait_until
from kernel.testing.roots import temporary_root
from kernel.testing.session import RunningSession, running_session
from kernel.testing.terminals import CONTROL_C, CONTROL_D, Terminal
from kernel_processes.system.processes import is_alive

PROMPT = "(Pdb) "
POST_MORTEM = {"env_vars": {"KERNEL_POST_MORTEM": "1"}}


@pytest.fixture(scope="module")
def session() -> Iterator[RunningSession]:
    with running_session(num_cpus=4) as running:
        yield running


@pytest.fixture
def nobody_waits(session: RunningSession) -> Iterator[RunningSession]:
    """The session, and after the test no breakpoint that waits."""
    yield session
    try:
        wait_until(lambda: not listed(), PATIENCE_SECONDS, "every breakpoint is left")
    finally:
        for row in listed():
            os.kill(row["pid"], signal.SIGKILL)


def listed(state: str = "") -> list[dict[str, Any]]:
    """Return the breakpoints of the session, as `kernel debug --json` shows them."""
    done = subprocess.run([*COMMAND, "debug", "--json", *here()], capture_output=True, text=True, check=True)
    return [row for row in json.loads(done.stdout) if state in ("", row["state"])]


def waiting(count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many wait; return their rows."""
    wait_until(lambda: len(listed("waiting")) == count, PATIENCE_SECONDS, f"{count} breakpoints wait")
    return listed("waiting")


def here() -> tuple[str, str]:
    return "--address", get_runtime().io.identity.directory  # type: ignore[attr-defined]


def debugger(*arguments: str) -> Terminal:
    """Run `kernel debug ARGUMENTS` on a terminal."""
    return Terminal("-m", "kernel.cli.main", "debug", *arguments, *here())


@kernel.remote(max_retries=0)
def divide(x: float, y: float) -> float:
    breakpoint()
    quotient = x / y
    return quotient


@kernel.remote(max_retries=0)
def twice() -> list[int]:
    seen = []
    for number in range(2):
        breakpoint()
        seen.append(number)
    return seen


@kernel.remote(max_retries=0)
def cleans_up(path: str) -> None:
    try:
        breakpoint()
    finally:
        open(path, "w").close()


@kernel.remote(max_retries=0)
def asks() -> str:
    return input("What is your name? ")


@kernel.remote(max_retries=0, runtime_env=POST_MORTEM)
def fails(x: int) -> None:
    doubled = 2 * x
    raise ValueError(f"no {doubled}")


@kernel.remote
class Several:
    def __init__(self) -> None:
        self.value = 40

    async def add(self, x: int) -> int:
        breakpoint()
        await asyncio.sleep(0.01)
        self.value += x
        return self.value

    async def ready(self) -> bool:
        return True


@kernel.remote
class One:
    def counts(self) -> Iterator[int]:
        for number in range(2):
            breakpoint()
            yield number

    def sets_trace(self) -> str:
        import pdb

        word = "before"
        pdb.set_trace()
        return word

    def starts_thread(self) -> list[str]:
        found: list[str] = []

        def work() -> None:
            word = "thread"
            breakpoint()
            found.append(word)

        thread = threading.Thread(target=work, name="helper")
        thread.start()
        thread.join()
        return found


def line_of(function: Any, text: str = "breakpoint()") -> int:
    """Return the number of the first line with `text` in a function of this file."""
    code = function.__code__
    with open(__file__) as file:
        lines = file.read().split("\n")
    return next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])


@pytest.mark.usefixtures("nobody_waits")
def test_a_breakpoint_is_listed_and_attached_to() -> None:
    ref = divide.remote(6, 3)
    row = waiting()[0]
    shown = subprocess.run([*COMMAND, "debug", *here()], capture_output=True, text=True, check=True).stdout
    line = line_of(divide._function)
    heads, first = (text.split() for text in shown.splitlines())
    assert heads == ["ID", "IN", "NODE", "PID", "SINCE", "STATE", "WHERE"]
    assert first[:5] == ["1", row["id"], "divide()", row["node_id"][:8], str(row["pid"])]
    assert first[-2:] == ["waiting", f"{__file__}:{line}"]
    assert (row["function"], row["file"], row["line"], row["error"]) == ("divide", __file__, line, "")
    assert row["task"] == ref.hex()[: len(row["task"])]
    with debugger(row["id"]) as terminal:
        assert f"> {__file__}({line})divide()\n-> breakpoint()\n" in terminal.expect(PROMPT)
        assert listed()[0]["state"] == "attached"
        terminal.send("p x, y")
        assert "(6, 3)\n" in terminal.expect(PROMPT)
        terminal.send("!y = 2")
        terminal.expect(PROMPT)
        terminal.send("next")
        assert "-> quotient = x / y\n" in terminal.expect(PROMPT)
        terminal.send("next")
        terminal.expect(PROMPT)
        terminal.send("print('to the', quotient)")
        assert "to the 3.0\n" in terminal.expect(PROMPT)
        terminal.send("continue")
        assert "kernel: the program goes on\n" in terminal.rest()
        assert terminal.exit_code() == 0
    assert kernel.get(ref) == 3.0


@pytest.mark.usefixtures("nobody_waits")
def test_one_of_several_is_chosen_by_its_number_at_the_prompt() -> None:
    refs = [divide.remote(6, 3)]
    waiting(1)
    refs.append(divide.remote(8, 2))
    waiting(2)
    with debugger() as terminal:
        terminal.expect("Attach to (number or id; Enter: none): ")
        terminal.send("2")
        terminal.expect(PROMPT)
        terminal.send("p x")
        assert "8\n" in terminal.expect(PROMPT)
        terminal.send("c")
        assert terminal.exit_code() == 0
    assert kernel.get(refs[1]) == 4.0
    assert [row["line"] for row in waiting(1)] == [line_of(divide._function)]
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        terminal.send("c")
        assert terminal.exit_code() == 0
    assert kernel.get(refs[0]) == 2.0


@pytest.mark.usefixtures("nobody_waits")
def test_a_terminal_follows_a_call_to_its_next_breakpoint() -> None:
    ref = twice.remote()
    waiting()
    with debugger("1") as terminal:
        for number in range(2):
            terminal.expect(PROMPT)
            terminal.send("p number")
            assert f"{number}\n" in terminal.expect(PROMPT)
            terminal.send("c")
        assert terminal.exit_code() == 0
    assert kernel.get(ref) == [0, 1]


@pytest.mark.usefixtures("nobody_waits")
def test_breakpoints_set_by_the_debugger_stop_again() -> None:
    ref = divide.remote(6, 3)
    waiting()
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        terminal.send(f"b {line_of(divide._function, 'return quotient')}")
        terminal.expect(PROMPT)
        terminal.send("c")
        assert "-> return quotient\n" in terminal.expect(PROMPT)
        terminal.send("c")
        assert "kernel: the call has ended\n" in terminal.rest()
    assert kernel.get(ref) == 2.0


@pytest.mark.usefixtures("nobody_waits")
def test_quit_ends_the_call_with_an_error_that_says_where() -> None:
    ref = divide.remote(6, 3)
    waiting()
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        terminal.send("quit")
        assert "kernel: the call was ended by the debugger\n" in terminal.rest()
    with pytest.raises(BdbQuit, match=f"the debugger was told to quit at {__file__}:{line_of(divide._function)}"):
        kernel.get(ref)


@pytest.mark.usefixtures("nobody_waits")
def test_a_terminal_that_leaves_lets_it_wait_on() -> None:
    ref = divide.remote(6, 3)
    row = waiting()[0]
    with debugger("1") as first:
        first.expect(PROMPT)
        first.send("x = 10")
        first.expect(PROMPT)
        refusal = f" breakpoint {row['id']} can't be debugged: another user is attached to it\n"
        with debugger("1") as third:
            assert refusal in third.rest()
            assert third.exit_code() == 1
        first.send(CONTROL_C)  # which takes a line back, as in a shell
        first.expect(PROMPT)
        first.send(CONTROL_D)
        assert f"kernel: it waits on; attach again with: kernel debug {row['id']}\n" in first.rest()
        assert first.exit_code() == 0
    waiting()
    with debugger("1") as killed:
        killed.expect(PROMPT)
        killed.kill()
        waiting()
    with debugger("1") as last:
        assert "-> breakpoint()\n" in last.expect(PROMPT)
        last.send("c")
        assert last.exit_code() == 0
    assert kernel.get(ref) == 10 / 3


@pytest.mark.usefixtures("nobody_waits")
def test_a_task_that_is_cancelled_at_its_breakpoint_cleans_up(tmp_path: Any) -> None:
    ref = cleans_up.remote(str(tmp_path / "cleaned"))
    waiting()
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        kernel.cancel(ref)
        with pytest.raises(kernel.exceptions.TaskCancelledError):
            kernel.get(ref, timeout=PATIENCE_SECONDS)
        wait_until((tmp_path / "cleaned").exists, PATIENCE_SECONDS, "its finally clause runs")
        terminal.send("p 1")
        assert "kernel: the call was cancelled\n" in terminal.rest()


@pytest.mark.usefixtures("nobody_waits")
def test_a_method_of_an_async_actor_is_stepped_through_and_cancelled() -> None:
    actor = Several.remote()
    ref = actor.add.remote(2)
    waiting()
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        terminal.send("next")
        assert "-> await asyncio.sleep(0.01)\n" in terminal.expect(PROMPT)
        terminal.send("next")
        assert "-> self.value += x\n" in terminal.expect(PROMPT)
        terminal.send("p self.value")
        assert "40\n" in terminal.expect(PROMPT)
        terminal.send("c")
        assert terminal.exit_code() == 0
    assert kernel.get(ref) == 42
    ref = actor.add.remote(2)
    waiting()
    kernel.cancel(ref)
    with pytest.raises(kernel.exceptions.TaskCancelledError):
        kernel.get(ref, timeout=PATIENCE_SECONDS)
    assert kernel.get(actor.ready.remote())


@pytest.mark.usefixtures("nobody_waits")
def test_generators_threads_and_pdb_itself() -> None:
    actor = One.remote()
    items = actor.counts.options(num_returns="streaming").remote()
    waiting()
    with debugger("1") as terminal:
        for number in range(2):
            terminal.expect(PROMPT)
            terminal.send("p number")
            assert f"{number}\n" in terminal.expect(PROMPT)
            terminal.send("c")
        assert terminal.exit_code() == 0
    assert [kernel.get(item) for item in items] == [0, 1]
    for ref, name, expected in (
        (actor.starts_thread.remote(), "thread helper", ["thread"]),
        (actor.sets_trace.remote(), "One.sets_trace()", "before"),
    ):
        assert waiting()[0]["name"] == name
        with debugger("1") as terminal:
            terminal.expect(PROMPT)
            terminal.send("p word")
            terminal.expect(PROMPT)
            terminal.send("c")
            assert terminal.exit_code() == 0
        assert kernel.get(ref) == expected


@pytest.mark.usefixtures("nobody_waits")
def test_a_terminal_hears_of_the_death_of_the_worker() -> None:
    ref = divide.remote(6, 3)
    row = waiting()[0]
    with debugger("1") as terminal:
        terminal.expect(PROMPT)
        os.kill(row["pid"], signal.SIGKILL)
        with pytest.raises(kernel.exceptions.WorkerDiedError):
            kernel.get(ref)
        wait_until(lambda: not listed(), PATIENCE_SECONDS, "it is listed no more")
        terminal.send("p 1")
        assert "kernel: its process has ended\n" in terminal.rest()


@pytest.mark.usefixtures("nobody_waits")
def test_whoever_waits_is_told_where_it_waits_and_how_to_attach() -> None:
    ref = divide.remote(6, 3)
    row = waiting()[0]
    where = f"at {__file__}:{row['line']}; attach with: kernel debug {row['id']}"
    with pytest.raises(kernel.exceptions.GetTimeoutError) as caught:
        kernel.get(ref, timeout=0.1)
    assert f"it waits at a breakpoint {where}" in str(caught.value)
    explained = subprocess.run([*COMMAND, "explain", ref.hex(), *here()], capture_output=True, text=True, check=True)
    assert f"it waits at a breakpoint {where}" in " ".join(explained.stdout.split())
    kernel.cancel(ref)


@pytest.mark.usefixtures("nobody_waits")
def test_a_call_behind_one_at_a_breakpoint_says_so() -> None:
    actor = One.remote()
    first, second = actor.sets_trace.remote(), actor.sets_trace.remote()
    row = waiting()[0]
    with pytest.raises(kernel.exceptions.GetTimeoutError) as caught:
        kernel.get(second, timeout=0.1)
    assert f"One.sets_trace() in the same process waits at a breakpoint at {__file__}:" in str(caught.value)
    assert f"kernel debug {row['id']}" in str(caught.value)
    kernel.cancel(second)
    kernel.cancel(first)


@pytest.mark.usefixtures("nobody_waits")
def test_a_failing_task_waits_where_it_raised_if_asked_to() -> None:
    ref = fails.remote(4)
    row = waiting()[0]
    assert (row["error"], row["line"]) == ("ValueError: no 8", line_of(fails._function, "raise ValueError"))
    with debugger("1") as terminal:
        assert "ValueError: no 8\n" in terminal.expect(PROMPT)
        terminal.send("p doubled")
        assert "8\n" in terminal.expect(PROMPT)
        terminal.send("c")
        assert terminal.exit_code() == 0
    with pytest.raises(ValueError, match="no 8"):
        kernel.get(ref)
    ref = fails.remote(5)
    waiting()
    kernel.cancel(ref)
    with pytest.raises(kernel.exceptions.TaskCancelledError):
        kernel.get(ref, timeout=PATIENCE_SECONDS)


@pytest.mark.usefixtures("session")
def test_input_says_what_to_do_instead() -> None:
    with pytest.raises(kernel.exceptions.NoInputError) as caught:
        kernel.get(asks.remote())
    assert isinstance(caught.value, EOFError)
    for words in ("input() was called in asks()", "kernel.init(local_mode=True)", "breakpoint()", "kernel debug"):
        assert words in str(caught.value)


@pytest.mark.usefixtures("session")
def test_what_is_not_there_is_refused() -> None:
    done = subprocess.run([*COMMAND, "debug", "12345678", *here()], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kernel: '12345678' names no breakpoints; those that wait are none\n"
    done = subprocess.run([*COMMAND, "debug", *here()], capture_output=True, text=True)
    assert done.stdout == "No breakpoint is waiting. A task or an actor waits at one when it calls breakpoint().\n"


PROGRAM = """
import kernel, os, sys
kernel.init(address="auto")

@kernel.remote
def waits():
    breakpoint()

waits.remote()
sys.stdin.read()
"""


def test_a_breakpoint_goes_with_its_program_which_has_been_told_of_it() -> None:
    with temporary_root() as root:
        line = CommandLine(root)
        started = line.start()
        try:
            address = ("--address", started["session"])
            program = line.program(PROGRAM)

            def rows() -> list[dict[str, Any]]:
                return line.json("debug", *address)  # type: ignore[no-any-return]

            assert program.stderr is not None
            said = program.stderr.readline()
            row = rows()[0]
            assert "waits() is at a breakpoint and waits for a debugger at <string>:7; attach with" in said
            assert f"kernel debug {row['id']}" in said
            program.kill()
            program.communicate()
            wait_until(lambda: not rows() and not is_alive(row["pid"]), PATIENCE_SECONDS, "its worker ends")
        finally:
            line.end()


LOCAL = """
import kernel
kernel.init(local_mode=True)

@kernel.remote
def divide(x, y):
    breakpoint()
    return x / y

print("quotient:", kernel.get(divide.remote(6, 3)))
"""


def test_in_local_mode_it_is_pdb_in_the_program_itself(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(LOCAL)
    with Terminal(str(program)) as terminal:
        terminal.expect(PROMPT)
        terminal.send("p x, y")
        assert "(6, 3)\n" in terminal.expect(PROMPT)
        terminal.send("c")
        assert "quotient: 2.0\n" in terminal.rest()


@pytest.mark.usefixtures("nobody_waits")
def test_commands_may_come_from_a_pipe() -> None:
    ref = divide.remote(6, 3)
    row = waiting()[0]
    command = [*COMMAND, "debug", row["id"], *here()]
    done = subprocess.run(command, input="p x + y\n", capture_output=True, text=True, check=True)
    assert "9\n" in done.stdout
    assert f"it waits on; attach again with: kernel debug {row['id']}" in done.stderr
    done = subprocess.run(command, input="c\n", capture_output=True, text=True, check=True)
    assert kernel.get(ref) == 2.0
