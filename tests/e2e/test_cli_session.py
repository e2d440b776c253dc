"""`kernel start` and `kernel stop`: real sessions in a directory of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from kernel.testing.command_line import COMMAND, SECONDS, CommandLine
from kernel.testing.session import temporary_root
from kernel_processes.system.processes import descendants_of, is_alive


@pytest.fixture
def command() -> Iterator[CommandLine]:
    """A command line whose sessions are all gone afterwards."""
    with temporary_root() as root:
        line = CommandLine(root)
        yield line
        line.end()


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def sessions_in(root: str) -> list[str]:
    return sorted(os.listdir(os.path.join(root, f"kernel-{os.getuid()}")))


JOIN = """
import kernel
with kernel.init(address="auto"):
    print(kernel.get(kernel.remote(lambda: 6 * 7).remote()))
    print(sorted(kernel.cluster_resources().items()))
"""


def test_a_started_session_stays_and_programs_join_it_one_after_the_other(command: CommandLine) -> None:
    done = command.run(
        "start", "--head", "--port", "0", "--num-cpus", "2", "--resources", '{"disk": 2.5}', "--memory", "1GiB"
    )
    assert done.returncode == 0, done.stderr
    for shown in (
        "Started session_",
        "2 CPU",
        "2.5 disk",
        "1.1 GB memory",
        'kernel.init(address="auto")',
        "kernel stop",
    ):
        assert shown in done.stdout
    for _ in range(2):
        program = subprocess.run(
            [sys.executable, "-c", JOIN], env=command.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert program.stdout.startswith("42\n"), program.stderr
        assert "('disk', 2.5)" in program.stdout and f"('memory', {1 << 30}.0)" in program.stdout
    (session,) = command.json("status")["sessions"]
    assert session["stays"] and is_alive(session["agent_pid"])


def test_stop_ends_every_process_and_leaves_no_file(command: CommandLine) -> None:
    started = command.start()
    pids = [started["agent_pid"], *descendants_of(started["agent_pid"])]
    assert len(pids) > 1
    done = command.run("stop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Ended {started['session']}: 0 workers, 0 actors")
    assert not [pid for pid in pids if is_alive(pid)]
    assert sessions_in(command.root) == []


def test_stop_with_nothing_to_stop_is_one_line_and_no_failure(command: CommandLine) -> None:
    done = command.run("stop")
    assert (done.returncode, done.stdout) == (0, "Nothing to stop: no session of yours is running.\n")
    assert command.json("stop") == {"ended": [], "failures": [], "swept": [], "elsewhere": {}}


def test_of_two_sessions_one_is_stopped_and_the_other_stays(command: CommandLine) -> None:
    first, second = command.start(), command.start()
    assert command.refused("stop", "session_").startswith("kernel: 'session_' fits 2 sessions: ")
    ended = command.json("stop", first["session"])["ended"]
    assert [row["session"] for row in ended] == [first["session"]]
    assert not is_alive(first["agent_pid"])
    status = command.json("status")
    assert status["name"] == second["session"] and [one["session"] for one in status["sessions"]] == [second["session"]]
    assert "OTHER SESSIONS" not in command.run("status").stdout
    third = command.start()
    assert second["session"] in command.run("status", "--address", third["session"]).stdout.split("OTHER SESSIONS")[1]
    assert len(command.json("stop")["ended"]) == 2


def test_force_ends_a_session_whose_agent_is_stopped(command: CommandLine) -> None:
    started = command.start()
    os.kill(started["agent_pid"], signal.SIGSTOP)
    line = command.refused("stop", code=1)
    assert "does not answer within 5 s" in line and f"kernel stop --force {started['session']}" in line
    pids = [started["agent_pid"], *descendants_of(started["agent_pid"])]  # whoever was being started is there by now
    done = command.run("stop", "--force")
    assert done.stdout == f"Killed {started['session']}: {len(pids)} processes\n", done.stderr
    assert not [pid for pid in pids if is_alive(pid)]
    assert sessions_in(command.root) == []


def test_what_a_killed_agent_leaves_goes_at_once_and_its_logs_with_stop(command: CommandLine) -> None:
    spill = os.path.join(command.root, "spill")
    started = command.start("--spill-directory", spill)
    assert len(os.listdir(spill)) == 1
    os.kill(started["agent_pid"], signal.SIGKILL)
    wait_until(lambda: sorted(os.listdir(started["directory"])) == ["logs", "session.json"], "it was cleaned up")
    wait_until(lambda: os.listdir(spill) == [], "what was spilled is gone")
    done = command.run("stop")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"Removed what was left of {started['session']}, whose agent had died.\n"
    assert sessions_in(command.root) == []


def test_force_sweeps_what_a_dead_agent_left(command: CommandLine) -> None:
    started = command.start()
    os.kill(started["agent_pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(started["agent_pid"]), "the agent is gone")
    assert sessions_in(command.root) == [started["session"]]
    assert command.run("stop", "--force").returncode == 0
    assert sessions_in(command.root) == []


def test_sessions_of_programs_are_left_alone_unless_named_in_full(command: CommandLine) -> None:
    text = "import kernel, sys\nkernel.init(num_cpus=1)\nprint('ready', flush=True)\nsys.stdin.read()"
    program = subprocess.Popen(
        [sys.executable, "-c", text],
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        done = command.run("stop")
        assert done.returncode == 0 and done.stdout.startswith("Nothing to stop: what is running belongs to programs")
        (name,) = sessions_in(command.root)
        for part in ("", "/", name[:-1]):
            command.refused("stop", part)
        assert sessions_in(command.root) == [name]
        (row,) = command.json("stop", "--all")["ended"]
        assert row["programs"] == 1 and not is_alive(row["agent_pid"])
    finally:
        program.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_block_stays_until_a_signal_and_then_ends_the_session(command: CommandLine, number: int) -> None:
    process = subprocess.Popen(
        [*COMMAND, "start", "--head", "--port", "0", "--num-cpus", "1", "--block"],
        env=command.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    shown = ""
    while "end it:" not in shown:
        line = process.stdout.readline()
        assert line, shown
        shown += line
    assert "Ctrl-C" in shown
    status = command.json("status")
    process.send_signal(number)
    rest, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and rest == f"Ended {status['name']}.\n"
    assert not is_alive(status["pid"]) and sessions_in(command.root) == []


def test_block_ends_when_the_session_does(command: CommandLine) -> None:
    process = subprocess.Popen(
        [*COMMAND, "start", "--head", "--port", "0", "--num-cpus", "1", "--block"],
        env=command.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: command.run("status").returncode == 0, "the session is there")
    agent = command.json("status")["pid"]
    os.kill(agent, signal.SIGKILL)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 1 and "died (signal 9), and with it the session" in errors
    assert errors.count("\n") == 1


def test_a_session_in_another_directory_is_found_and_stopped(command: CommandLine) -> None:
    with temporary_root() as elsewhere:
        started = command.start("--temp-dir", elsewhere)
        assert started["directory"].startswith(elsewhere)
        assert command.json("status")["name"] == started["session"]
        assert command.json("status", "--address", started["directory"])["name"] == started["session"]
        assert command.run("stop").returncode == 0
        assert sessions_in(elsewhere) == [] and sessions_in(command.root) == []


def test_a_plugin_that_is_not_installed_ends_the_start_cleanly(command: CommandLine) -> None:
    line = command.refused("start", "--head", "--scheduler", "fifi")
    assert "fifi" in line and "fifo" in line
    assert sessions_in(command.root) == []
