"""A cluster from the command line: a head and nodes that join it, drained, stopped, refused. All on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.command_line import COMMAND, SECONDS, CommandLine
from kernel.testing.faults import kill, paused, title_of, wait_until
from kernel.testing.session import temporary_root
from kernel_processes.cli import certificates
from kernel_processes.system.processes import descendants_of, is_alive


@pytest.fixture
def machines() -> Iterator[tuple[CommandLine, CommandLine]]:
    """Two command lines that know nothing of each other's sessions, as on two machines of one address."""
    with temporary_root() as first, temporary_root() as second:
        lines = CommandLine(first), CommandLine(second)
        yield lines
        for line in lines:
            line.end()


@pytest.fixture
def head(machines: tuple[CommandLine, CommandLine]) -> CommandLine:
    """The machine of the head."""
    return machines[0]


@pytest.fixture
def other(machines: tuple[CommandLine, CommandLine]) -> CommandLine:
    """Another machine."""
    return machines[1]


def token_of(line: CommandLine) -> str:
    return line.run("token").stdout.strip()


def states(line: CommandLine) -> dict[str, str]:
    """Return node to state, as `kernel status` says."""
    return {row["NodeID"]: row["State"] for row in line.json("status")["nodes"]}


def kill_head(agent: int) -> None:
    """End the head beside an agent, which starts another."""

    def heads() -> list[int]:
        return [pid for pid in descendants_of(agent) if title_of(pid) == "kernel: head" and is_alive(pid)]

    wait_until(heads, SECONDS, "a head")
    (old,) = heads()
    kill(old)
    wait_until(lambda: not is_alive(old), SECONDS, "the end of the head")


def end_of(agent: int) -> None:
    wait_until(lambda: not is_alive(agent), SECONDS, "the end of the agent")


def kill_machine(agent: int) -> None:
    """End an agent and all that it started at once, as a power cut would."""
    family = [agent, *descendants_of(agent)]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    for pid in {*family, *descendants_of(agent)}:
        kill(pid)
    for pid in family:
        wait_until(lambda pid=pid: not is_alive(pid), SECONDS, "the end of the machine")  # type: ignore[misc]


WHERE = """
import json, sys
import kernel

@kernel.remote(resources={"there": 1})
def where():
    return kernel.get_runtime_context().get_node_id()

with kernel.init(address=sys.argv[1], log_to_driver=False):
    print(kernel.get(where.remote(), timeout=120), flush=True)
"""


def test_two_commands_make_a_cluster_and_programs_of_both_machines_use_it(
    head: CommandLine, other: CommandLine, tmp_path: Path
) -> None:
    done = head.run("start", "--head", "--num-cpus", "1", "--port", "0")
    assert done.returncode == 0, done.stderr
    place = re.search(r"the head listens at (\S+)", done.stdout)
    assert place is not None and f"kernel start --address={place[1]}   (this machine only; " in done.stdout
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(token_of(head))
    joined = other.join(place[1], "--token-file", str(tmp_path / "token"), "--resources", '{"there": 1}')
    assert joined["head"] == place[1] and joined["address"].startswith("127.0.0.1:")
    for line in (head, other):
        for address in ("auto", place[1]):
            program = line.program(WHERE, address)
            shown, errors = program.communicate(timeout=SECONDS)
            assert shown == joined["node_id"] + "\n", errors
    wait_until(lambda: "CPU 0/1, there 0/1" in other.run("status").stdout, SECONDS, "the end of what the programs held")
    status = other.run("status").stdout
    assert "NODES  2 alive" in status and "CPU 0/1, there 0/1" in status and "metadata sqlite" in status


def test_nodes_that_do_not_answer_are_named(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0", "--node-death-seconds", "120")["address"]
    joined = other.join(place, KERNEL_TOKEN=token_of(head))
    (agent,) = [row["AgentPid"] for row in head.json("status")["nodes"] if row["NodeID"] == joined["node_id"]]
    missing = {
        "status": "its workers, its store and its memory are",
        "memory": "its store and its memory are",
        "stack": "its workers are",
        "timeline -": "the names of its processes are",
        "logs --pid 1": "its workers are",
    }
    with paused(agent):
        for command, what in missing.items():
            told = head.run(*command.split()).stderr.partition("kernel: nothing was written by")[0]
            assert told == f"node {joined['node_id']} did not answer within 2 s; {what} missing here\n"
    wait_until(lambda: not head.json("status")["silent_nodes"], SECONDS, "the answer of the node")


def test_the_token_is_on_no_command_line_and_in_no_environment(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0")["address"]
    token = token_of(head)
    joined = other.join(place, "--resources", '{"there": 1}', KERNEL_TOKEN=token)
    program = other.program(WHERE + "    print(sys.stdin.readline())", "auto")
    assert program.stdout is not None and program.stdout.readline() == joined["node_id"] + "\n"
    family = descendants_of(joined["agent_pid"])
    assert [pid for pid in family if title_of(pid) == "kernel: worker"]
    for pid in (joined["agent_pid"], *family):
        for name in ("cmdline", "environ"):
            assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes(), (pid, name)
    for line in (head, other):
        for path in Path(line.root).rglob("*"):
            if path.is_file() and token.encode() in path.read_bytes():
                assert path.name == "token" and path.stat().st_mode & 0o777 == 0o600, path
    program.communicate("", timeout=SECONDS)


def test_kernel_token_writes_files_that_nobody_else_reads(head: CommandLine, tmp_path: Path) -> None:
    head.start("--port", "0")
    file = tmp_path / "token"
    assert head.run("token", "--output", str(file)).returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text() == token_of(head)
    assert head.refused("token", "--output", str(file)) == (
        f"kernel: {file} is there already; choose another file, or remove it"
    )


def test_a_node_that_stops_leaves_and_a_head_that_stops_ends_all(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0")["address"]
    token = token_of(head)
    first = other.join(place, KERNEL_TOKEN=token)
    done = other.run("stop")
    assert done.stdout == (
        f"Ended {first['session']}, a node of the cluster at {place}: 0 workers, 0 actors; the cluster goes on\n"
    )
    wait_until(lambda: states(head)[first["node_id"]] == "DEAD", SECONDS, "the head's knowing of it")
    assert list(states(head).values()).count("ALIVE") == 1
    second = other.join(place, KERNEL_TOKEN=token)
    done = head.run("stop")
    assert "2 nodes, 0 workers" in done.stdout, done
    end_of(second["agent_pid"])
    line = other.refused("status", code=1)
    assert f"(the last, {second['session']}, has ended: it was asked to stop)" in line
    assert sorted(os.listdir(second["directory"])) == ["logs", "session.json"]


def test_both_kinds_on_one_machine_are_stopped_together(head: CommandLine) -> None:
    started = head.start("--port", "0")
    joined = head.join(started["address"])  # needs no token: it is that of a session here
    assert [row["session"] for row in head.json("stop")["ended"]] == [joined["session"], started["session"]]


def test_a_node_ends_though_its_head_is_away(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0")["address"]
    joined = other.join(place, KERNEL_TOKEN=token_of(head))
    head.end()
    assert [row["session"] for row in other.json("stop")["ended"]] == [joined["session"]]
    assert not is_alive(joined["agent_pid"])


def test_a_machine_without_a_node_asks_and_ends_the_cluster(head: CommandLine, other: CommandLine) -> None:
    started = head.start("--port", "0")
    place, known = started["address"], {"KERNEL_TOKEN": token_of(head)}
    found = other.json("status", "--address", place, **known)
    assert found["name"] == place and [row["NodeID"] for row in found["nodes"]] == [started["node_id"]]
    for command in ("memory", "status", "stack"):
        assert other.run(command, "--address", place, **known).returncode == 0
    line = other.refused("logs", "--address", place, **known)
    assert line == (
        f"kernel: this machine has no node of the cluster at {place}; each node keeps the output of its workers: "
        "run kernel logs on that machine"
    )
    assert other.run("stop", "--address", place, **known).stdout == f"Ended the cluster at {place}.\n"
    end_of(started["agent_pid"])


TALK = """
import sys
import kernel

@kernel.remote(resources={"there": 1})
class Talker:
    def talk(self):
        print("said there", flush=True)

with kernel.init(address="auto", log_to_driver=False):
    talker = Talker.remote()
    kernel.get(talker.talk.remote(), timeout=120)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_stacks_and_lines_of_a_worker_on_another_node(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0")["address"]
    known = {"KERNEL_TOKEN": token_of(head)}
    joined = other.join(place, "--resources", '{"there": 1}', **known)
    program = head.program(TALK, "auto")
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    (worker,) = (row for row in head.json("status")["workers"] if row["name"] == "Talker")
    (row,) = head.json("stack", "--pid", str(worker["pid"]))
    assert (row["node_id"], row["by"]) == (joined["node_id"], "itself"), "py-spy sees processes of this machine only"
    (row,) = other.json("stack", "--pid", str(worker["pid"]), "--address", place, **known)
    assert row["threads"] and row["node_id"] == joined["node_id"]
    shown = head.run("stack", "--pid", str(worker["pid"])).stdout
    assert shown.startswith(f"pid {worker['pid']}, node {joined['node_id'][:8]}  worker, actor: Talker")
    done = head.run("logs", "--actor", "Talker")
    assert done.stdout == "" and f"it runs on node {joined['node_id'][:8]} (" in done.stderr
    wait_until(lambda: "said there" in other.run("logs", "--actor", "Talker").stdout, SECONDS, "its line in the log")
    program.communicate("", timeout=SECONDS)


WORK = """
import sys, time
import kernel

@kernel.remote(resources={"there": 1}, max_retries=0)
def work(path):
    open(path, "w").close()
    time.sleep(1.5)
    return bytes(2_000_000)

@kernel.remote(num_cpus=1)
def anywhere():
    return kernel.get_runtime_context().get_node_id()

with kernel.init(address="auto", log_to_driver=False):
    ref = work.remote(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    print(len(kernel.get(ref, timeout=120)), kernel.get(anywhere.remote(), timeout=120), flush=True)
"""


def test_a_node_is_drained_of_its_work_and_its_objects(head: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    started = head.start("--port", "0")
    joined = other.join(started["address"], "--resources", '{"there": 1}', KERNEL_TOKEN=token_of(head))
    program = head.program(WORK, str(tmp_path / "begun"))
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    wait_until((tmp_path / "begun").exists, SECONDS, "the task to begin")
    done = head.run("drain", joined["node_id"][:6])
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"node {joined['node_id'][:8]} \(.*\) has left\n", done.stdout)
    assert states(head)[joined["node_id"]] == "DRAINED"
    end_of(joined["agent_pid"])
    shown, errors = program.communicate("\n", timeout=SECONDS)
    assert shown == f"2000000 {started['node_id']}\n", errors
    assert "has ended: it was drained)" in other.refused("status", code=1)


def test_a_deadline_cuts_off_what_still_runs(head: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    started = head.start("--port", "0")
    joined = other.join(started["address"], "--resources", '{"there": 1}', KERNEL_TOKEN=token_of(head))
    text = WORK.replace("time.sleep(1.5)", "time.sleep(600)")
    program = head.program(text, str(tmp_path / "begun"))
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    wait_until((tmp_path / "begun").exists, SECONDS, "the task to begin")
    assert head.run("drain", joined["node_id"], "--no-wait").returncode == 0
    assert states(head)[joined["node_id"]] == "DRAINING"
    assert head.run("drain", joined["node_id"], "--deadline", "0.3").returncode == 0
    _, errors = program.communicate("\n", timeout=SECONDS)
    assert "it was drained, and its deadline has come" in errors


def test_a_drain_is_cancelled_and_what_waited_for_the_node_runs_there(
    head: CommandLine, other: CommandLine, tmp_path: Path
) -> None:
    started = head.start("--port", "0", "--num-cpus", "0")
    joined = other.join(
        started["address"], "--num-cpus", "1", "--resources", '{"there": 1}', KERNEL_TOKEN=token_of(head)
    )
    program = head.program(WORK, str(tmp_path / "begun"))
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    wait_until((tmp_path / "begun").exists, SECONDS, "the task to begin")
    assert head.run("drain", joined["node_id"], "--no-wait").returncode == 0
    assert states(head)[joined["node_id"]] == "DRAINING"
    done = head.run("drain", joined["node_id"], "--cancel")
    assert re.fullmatch(rf"node {joined['node_id'][:8]} \(.*\) stays\n", done.stdout), done.stderr
    assert states(head)[joined["node_id"]] == "ALIVE"
    shown, errors = program.communicate("\n", timeout=SECONDS)
    assert shown == f"2000000 {joined['node_id']}\n", errors
    assert "give one of them" in head.refused("drain", joined["node_id"], "--cancel", "--deadline", "1")


def test_what_can_not_be_drained_is_refused(head: CommandLine) -> None:
    started = head.start("--port", "0")
    assert "is beside the head, which can't do without it" in head.refused("drain", started["node_id"])
    line = head.refused("drain", "nowhere")
    assert line.startswith("kernel: there is no living node 'nowhere'; there are " + started["node_id"][:8])


# -- refusals ------------------------------------------------------------------------------------------------------


def test_a_head_that_is_not_there(head: CommandLine) -> None:
    line = head.refused("start", "--address", "127.0.0.1:1", code=1, KERNEL_TOKEN="ab" * 32)
    assert line.startswith("kernel: this node can't join the head at 127.0.0.1:1: it can't be reached: Connection ref")
    assert "`kernel status` on its machine says whether it runs" in line


def test_a_wrong_token(head: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    place = head.start("--port", "0")["address"]
    said = "it has another session token; `kernel token` on its machine shows the one that is needed"
    line = other.refused("start", "--address", place, code=1, KERNEL_TOKEN="ab" * 32)
    assert line.startswith(f"kernel: this node can't join the head at {place}: {said}")
    line = other.refused("status", "--address", place, code=1, KERNEL_TOKEN="ab" * 32)
    assert line.startswith(f"kernel: the head at {place} can't be asked: {said}")
    assert "what KERNEL_TOKEN holds is no token: a token has 64" in other.refused("start", "--head", KERNEL_TOKEN="ab")
    file = tmp_path / "token"
    file.write_text("ab" * 32)
    file.chmod(0o644)
    line = other.refused("start", "--address", place, "--token-file", str(file))
    assert line == f"kernel: the token file {file} can be read by others; run: chmod 600 {file}"
    file.chmod(0o600)
    file.write_text("nonsense")
    assert "holds no token: a token has 64 hexadecimal" in other.refused("start", "--head", "--token-file", str(file))


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("import kernel_spec.version as v; v.__version__ = '1999.1'", "has kernel 1999.1, the head "),
        ("import sys; sys.version_info = type('V', (tuple,), dict(major=3, minor=7))((3, 7))", "runs Python 3.7, the "),
    ],
    ids=["version", "python"],
)
def test_other_versions(head: CommandLine, other: CommandLine, tmp_path: Path, patch: str, said: str) -> None:
    place = head.start("--port", "0")["address"]
    only_in_agents = "import sys, os\nif 'kernel_processes.daemons.agent_main' in str(sys.orig_argv):\n"
    (tmp_path / "sitecustomize.py").write_text(only_in_agents + f"    {patch}\n")
    path = f"{tmp_path}{os.pathsep}{other.environment['PYTHONPATH']}"
    line = other.refused("start", "--address", place, code=1, KERNEL_TOKEN=token_of(head), PYTHONPATH=path)
    assert said in line and line.startswith(f"kernel: this node can't join the head at {place}: ")


def test_a_port_that_is_taken(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0")["address"]
    line = other.refused("start", "--head", "--port", place.rpartition(":")[2])
    assert line == f"kernel: can't listen at {place}: Address already in use; choose another port"


def test_heads_that_are_started_in_the_same_instant_find_a_port_each() -> None:
    with ExitStack() as exits, ThreadPoolExecutor() as threads:
        lines = [CommandLine(exits.enter_context(temporary_root())) for _ in range(4)]
        for line in lines:
            exits.callback(line.end)
        heads = list(threads.map(lambda line: line.start(), lines))
        assert len({head["address"] for head in heads}) == len(lines)
        for line, head in zip(lines, heads, strict=True):
            rows = line.json("status", "--address", head["address"], KERNEL_TOKEN=token_of(line))["nodes"]
            assert [row["NodeID"] for row in rows] == [head["node_id"]]


def test_tls_on_one_side_only_and_of_another_authority(head: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    for name in ("good", "stranger"):
        certificates.create(tmp_path / name)
    plain = head.start("--port", "0")["address"]
    known = {"KERNEL_TOKEN": token_of(head)}
    line = other.refused("start", "--address", plain, "--tls", str(tmp_path / "good"), code=1, **known)
    assert "its gateway speaks no TLS: switch TLS on there too, or off here (--tls DIR or KERNEL_TLS, on every" in line
    head.run("stop")
    secured = head.start("--port", "0", "--tls", str(tmp_path / "good"))["address"]
    known = {"KERNEL_TOKEN": token_of(head)}
    assert "speaks TLS only" in other.refused("start", "--address", secured, code=1, **known)
    assert "speaks TLS only" in other.refused("status", "--address", secured, code=1, **known)
    known["KERNEL_TLS"] = str(tmp_path / "stranger")
    assert "of another authority" in other.refused("start", "--address", secured, code=1, **known)
    known["KERNEL_TLS"] = str(tmp_path / "good")
    assert other.json("status", "--address", secured, **known)["name"] == secured
    assert other.join(secured, **known)["head"] == secured


def test_a_node_that_was_declared_dead_ends_and_says_so(head: CommandLine, other: CommandLine) -> None:
    place = head.start("--port", "0", "--node-death-seconds", "5")["address"]
    blocked = subprocess.Popen(
        [*COMMAND, "start", "--address", place, "--num-cpus", "1", "--block"],
        env={**other.environment, "KERNEL_TOKEN": token_of(head)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(states(head)) == 2, SECONDS, "the node to join")
    agent = other.json("status")["pid"]
    family = [agent, *descendants_of(agent)]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: "DEAD" in states(head).values(), SECONDS, "the node to be declared dead")
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    _, errors = blocked.communicate(timeout=SECONDS)
    assert blocked.returncode == 1 and errors.count("\n") == 1, errors
    assert "has ended: the head is gone: this node was declared dead: no heartbeat from it for" in errors
    assert "this node was declared dead" in other.refused("status", code=1)


# -- the death of the head -----------------------------------------------------------------------------------------

PATIENT = ("--node-death-seconds", "60")
"""Options of a head that calls no node dead that only has no CPU for a while; the next waits twice as long for them."""

COUNTER = """
import sys, time
import kernel

@kernel.remote(resources={"there": 1})
class Counter:
    def __init__(self):
        self.count = 0

    def up(self):
        self.count += 1
        return self.count

kernel.init(address="auto", namespace="tests", log_to_driver=False)
counter = Counter.options(name="counter", lifetime="detached", get_if_exists=True).remote()
for line in sys.stdin:
    print(kernel.get(counter.up.remote(), timeout=120), flush=True)
"""


def count(program: subprocess.Popen[str]) -> int:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    line = program.stdout.readline()
    assert line, program.communicate()[1]
    return int(line)


def test_the_head_is_killed_while_an_actor_counts(head: CommandLine, other: CommandLine) -> None:
    started = head.start("--port", "0")
    other.join(started["address"], "--resources", '{"there": 1}', KERNEL_TOKEN=token_of(head))
    program = head.program(COUNTER)
    assert count(program) == 1
    for expected in (2, 3):
        kill_head(started["agent_pid"])
        assert count(program) == expected
    program.communicate(timeout=SECONDS)


def test_who_asks_before_a_node_has_come_back_is_answered_when_it_has(head: CommandLine, other: CommandLine) -> None:
    started = head.start("--port", "0", *PATIENT)
    joined = other.join(started["address"], "--resources", '{"there": 1}', KERNEL_TOKEN=token_of(head))
    first = head.program(COUNTER)
    assert count(first) == 1
    first.communicate(timeout=SECONDS)
    os.kill(joined["agent_pid"], signal.SIGSTOP)
    try:
        kill_head(started["agent_pid"])
        second = head.program(COUNTER)
        running = lambda: [job for job in head.json("status")["jobs"] if job["pid"] == second.pid]
        wait_until(running, SECONDS, "the program to join")
    finally:
        os.kill(joined["agent_pid"], signal.SIGCONT)
    assert count(second) == 2
    second.communicate(timeout=SECONDS)


def test_a_head_is_started_again_on_a_machine_that_died(head: CommandLine, other: CommandLine, tmp_path: Path) -> None:
    metadata = tmp_path / "metadata"
    first = head.start("--port", "0", "--metadata-path", str(metadata), *PATIENT)
    place, token = first["address"], token_of(head)
    port = place.rpartition(":")[2]
    joined = other.join(place, "--resources", '{"there": 1}', KERNEL_TOKEN=token)
    program = other.program(COUNTER)
    assert count(program) == 1
    kill_machine(first["agent_pid"])
    second: Any = head.start("--port", port, "--metadata-path", str(metadata), *PATIENT)
    assert token_of(head) == token and second["node_id"] != first["node_id"]
    assert count(program) == 2
    known = {first["node_id"]: "DEAD", joined["node_id"]: "ALIVE", second["node_id"]: "ALIVE"}
    wait_until(lambda: states(head) == known, SECONDS, "the node to come back")
    (dead,) = [row for row in head.json("status")["nodes"] if row["State"] == "DEAD"]
    assert dead["Cause"] == "it was beside a head that was killed with it"
    again = head.program(COUNTER)
    assert count(again) == 3
    for one in (program, again):
        one.communicate(timeout=SECONDS)
    head.run("stop")
    end_of(joined["agent_pid"])
    assert sorted(os.listdir(metadata)) == ["token"], "a cluster that was ended is not carried on"


def test_the_directory_for_metadata_is_private(head: CommandLine, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    line = head.refused("start", "--head", "--metadata-path", str(tmp_path))
    assert line == f"kernel: --metadata-path {tmp_path} must belong to you alone; run: chmod 700 {tmp_path}"


def test_a_head_that_keeps_nothing_says_so(head: CommandLine) -> None:
    done = head.run("start", "--head", "--num-cpus", "1", "--port", "0", "--metadata-store", "memory")
    assert done.returncode == 0 and "if the head dies, the cluster ends with it" in done.stderr
