"""A machine and a container that share a directory for sessions: PID namespaces, in which pids mean something else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from kernel.testing.command_line import CommandLine
from kernel.testing.faults import wait_until
from kernel.testing.pid_namespaces import in_pid_namespace, pid_namespace
from kernel.testing.session import temporary_root
from kernel_processes.system.processes import children_of, descendants_of, is_alive

SECONDS = 120.0
ELSEWHERE = "in another PID namespace of this host, such as a container's"

PROGRAM = """
import sys
import kernel

kernel.init(num_cpus=1, object_store_memory=32 << 20)

@kernel.remote(num_cpus=0)
class Doubler:
    def double(self, x):
        return 2 * x

for line in sys.stdin:  # a new process each time, which joins by the files of the session
    doubler = Doubler.remote()
    print(kernel.get(doubler.double.remote(int(line)), timeout=120), flush=True)
"""

JOIN = """
import kernel
with kernel.init(address="auto"):
    print(kernel.get(kernel.remote(lambda: 6 * 7).remote(), timeout=120))
"""

JOIN_EITHER = """
import sys
import kernel
for address in sys.argv[1:]:
    try:
        kernel.init(address)
    except kernel.exceptions.KernelError as error:
        print(str(error).partition(". ")[0])
"""

both_ways = pytest.mark.parametrize("inside_first", [True, False], ids=["inside first", "outside first"])


@pytest.fixture
def root() -> Iterator[str]:
    """A directory for sessions that those inside and outside share."""
    with temporary_root() as place:
        yield place


def sessions_in(root: str) -> list[str]:
    return sorted(os.listdir(os.path.join(root, f"kernel-{os.getuid()}")))


def doubled(program: subprocess.Popen[str], number: int) -> str:
    """Have a program's session start an actor that doubles."""
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(f"{number}\n")
    program.stdin.flush()
    return program.stdout.readline()


def finish(program: subprocess.Popen[str]) -> None:
    errors = program.communicate(timeout=SECONDS)[1]
    assert program.returncode == 0, errors


def lines(prefix: tuple[str, ...], root: str, inside_first: bool) -> tuple[CommandLine, CommandLine]:
    """Return where the first session is, and where the second."""
    inside, outside = CommandLine(root, prefix), CommandLine(root)
    return (inside, outside) if inside_first else (outside, inside)


@both_ways
@in_pid_namespace
def test_programs_on_both_sides_leave_each_others_sessions_alone(
    prefix: tuple[str, ...], root: str, inside_first: bool
) -> None:
    first, second = (line.program(PROGRAM) for line in lines(prefix, root, inside_first))
    assert doubled(first, 1) == "2\n"
    assert doubled(second, 2) == "4\n"
    assert len(sessions_in(root)) == 2
    assert doubled(first, 3) == "6\n"
    finish(second)
    assert doubled(first, 4) == "8\n"
    finish(first)
    assert sessions_in(root) == []


@both_ways
@in_pid_namespace
def test_heads_on_both_sides_leave_each_other_alone(prefix: tuple[str, ...], root: str, inside_first: bool) -> None:
    first, second = lines(prefix, root, inside_first)
    try:
        name = first.start("--port", "0")["session"]
        other = second.start("--port", "0")["session"]
        assert sessions_in(root) == sorted([name, other])
        for line, own, far in ((first, name, other), (second, other, name)):
            status = line.json("status")
            assert [one["session"] for one in status["sessions"]] == [own]
            assert status["elsewhere"] == {far: ELSEWHERE}
        stopped = second.json("stop", "--all", "--force")
        assert [row["session"] for row in stopped["ended"]] == [other]
        assert (stopped["swept"], stopped["elsewhere"]) == ([], {name: ELSEWHERE})
        assert first.program(JOIN).communicate(timeout=SECONDS)[0] == "42\n"
        assert [row["session"] for row in first.json("stop")["ended"]] == [name]
        assert sessions_in(root) == []
    finally:
        first.end()
        second.end()


@in_pid_namespace
def test_what_runs_on_the_other_side_can_be_neither_stopped_nor_asked(prefix: tuple[str, ...], root: str) -> None:
    inside, outside = CommandLine(root, prefix), CommandLine(root)
    started = inside.start("--port", "0")
    name = started["session"]
    said = outside.refused("stop", "--force", name)
    assert f"{name} is {ELSEWHERE}, and is running there: stop it there" in said
    assert f"({name} is {ELSEWHERE})" in outside.refused("status", code=1)
    assert f"session {name} can't be asked from here: it is {ELSEWHERE}" in outside.refused("status", "--address", name)
    program = outside.program(JOIN_EITHER, name, started["directory"])
    assert (
        program.communicate(timeout=SECONDS)[0] == f"session {name} can't be joined from here: it is {ELSEWHERE}\n" * 2
    )
    assert [row["session"] for row in inside.json("stop")["ended"]] == [name]


@in_pid_namespace
def test_a_session_whose_namespace_died_is_swept_in_no_other_and_removed_by_its_full_name(
    prefix: tuple[str, ...], root: str
) -> None:
    outside = CommandLine(root)
    with pid_namespace() as another:
        name = CommandLine(root, another).start("--port", "0")["session"]
    for line in (outside, CommandLine(root, prefix)):
        assert line.run("stop").stdout == (
            "Nothing to stop: no session of yours is running.\n"
            f"Left alone: {name}, which is {ELSEWHERE}; if it is over for sure: kernel stop --force {name}.\n"
        )
    assert f"If it is over for sure, remove what it left: kernel stop --force {name}" in outside.refused("stop", name)
    assert outside.run("stop", "--force", name).stdout == f"Removed what was left of {name}.\n"
    assert sessions_in(root) == []


@in_pid_namespace
def test_a_killed_agent_is_swept_in_its_own_namespace(prefix: tuple[str, ...], root: str) -> None:
    inside = CommandLine(root, prefix)
    started = inside.start("--port", "0")
    inside.program(f"import os; os.kill({started['agent_pid']}, 9)").communicate(timeout=SECONDS)
    assert inside.json("stop")["swept"] == [started["session"]]
    assert sessions_in(root) == []


def test_no_child_of_a_killed_agent_keeps_its_session_alive(root: str) -> None:
    line = CommandLine(root)
    started = line.start("--port", "0", "--num-cpus", "1")
    assert line.program(JOIN).communicate(timeout=SECONDS)[0] == "42\n"
    agent = started["agent_pid"]
    assert len(children_of(agent)) >= 2, "a head and a template"
    family = descendants_of(agent)
    try:
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        os.kill(agent, signal.SIGKILL)
        wait_until(lambda: not is_alive(agent), SECONDS, "the end of the agent")
        assert any(is_alive(pid) for pid in family)
        assert line.json("stop")["swept"] == [started["session"]]
    finally:
        for pid in filter(is_alive, family):
            os.kill(pid, signal.SIGKILL)


def test_a_session_whose_directory_is_removed_ends_and_names_it(root: str) -> None:
    line = CommandLine(root)
    started = line.start("--port", "0")
    program = line.program(
        """
import shutil
import sys
import kernel

kernel.init(address="auto", log_to_driver=False)
never = kernel.remote(max_retries=0)(lambda: __import__("time").sleep(600)).remote()
shutil.rmtree(sys.argv[1])
try:
    kernel.get(never, timeout=120)
except kernel.exceptions.SessionEndedError as error:
    print(error)
""",
        started["directory"],
    )
    said, errors = program.communicate(timeout=SECONDS)
    removed = f"its directory {started['directory']} was removed or emptied while it ran, by a cleaner of temporary"
    assert f"{removed} files perhaps; set KERNEL_TMPDIR to a directory that nothing cleans" in said, errors
    wait_until(lambda: not is_alive(started["agent_pid"]), SECONDS, "the end of the agent")
    assert removed in line.refused("status", code=1)
    assert line.json("stop")["swept"] == [started["session"]]


def test_new_work_in_a_session_whose_directory_was_removed_fails_by_its_name(root: str) -> None:
    program = CommandLine(root).program(
        """
import shutil
import kernel

directory = kernel.init(num_cpus=1, object_store_memory=32 << 20)["session_dir"]
shutil.rmtree(directory)
try:
    kernel.get([kernel.remote(lambda: 1).options(num_cpus=0).remote() for _ in range(4)], timeout=120)
except kernel.exceptions.SessionEndedError as error:
    print(f"its directory {directory} was removed" in str(error))
"""
    )
    said, errors = program.communicate(timeout=SECONDS)
    assert said == "True\n", errors
