"""The commands that ask a session: status, memory, explain, logs, stack, timeline, about one program that runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from kernel.testing.session import temporary_root
from kernel.testing.terminals import Terminal

COMMAND = [sys.executable, "-m", "kernel.cli.main"]
SECONDS = 120.0
ARRAY_BYTES = 1_000_000

PROGRAM = f"""
import json, os, sys, time
import numpy
import kernel

kernel.init(address="auto", namespace="demo", log_to_driver=False)

@kernel.remote
def double(x):
    print("doubling", x)
    return 2 * x

@kernel.remote(num_gpus=2)
def train():
    return 1

@kernel.remote
class Keeper:
    def keep(self, refs):
        self.refs = refs
        print("oh\\tno", file=sys.stderr)
        return os.getpid()

    def sleep_soundly(self):
        time.sleep(600)

keeper = Keeper.options(name="archive", num_cpus=0).remote()
array = kernel.put(numpy.zeros({ARRAY_BYTES}, dtype=numpy.uint8))
small = kernel.put("small")
boxed = kernel.put([small])
keeper_pid = kernel.get(keeper.keep.remote([array]))
doubled = double.remote(21)
kernel.get(doubled)
waiting = [train.remote() for _ in range(3)]
later = double.remote(waiting[0])
sleeping = keeper.sleep_soundly.remote()
gang = kernel.placement_group([{{"GPU": 1}}, {{"GPU": 1}}], "SPREAD", "gang")
refs = dict(array=array, small=small, doubled=doubled, waiting=waiting[0], later=later, sleeping=sleeping)
print(json.dumps(dict(
    pid=os.getpid(), keeper_pid=keeper_pid, keeper=repr(keeper), gang=repr(gang),
    **{{name: ref.hex() for name, ref in refs.items()}}
)), flush=True)
sys.stdin.read()
"""


@dataclass
class Demo:
    """A session that stays, a program in it, and what the program said about itself."""

    environment: dict[str, str]
    said: dict[str, Any]
    program: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*COMMAND, *arguments], env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )

    def shown(self, *arguments: str) -> str:
        """Run a command that must succeed; return what it showed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """Run a command that must succeed; return what it printed as JSON."""
        return json.loads(self.shown(*arguments, "--json"))

    def memory(self) -> Any:
        """Return what `kernel memory` says when every process has answered in time."""
        asked: list[Any] = []

        def nobody_is_silent() -> bool:
            asked.append(self.json("memory"))
            return asked[-1]["silent"] == []

        wait_until(nobody_is_silent, "every process answers in time")
        return asked[-1]

    def refused(self, *arguments: str) -> str:
        """Run a command that must be refused in one line; return the line."""
        done = self.run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.count("\n") == 1
        return done.stderr.strip()

    def on_terminal(self, *arguments: str, columns: int = 100, **environment: str) -> str:
        """Run a command on a terminal; return what it wrote there, escapes and all."""
        given = {**self.environment, **environment}
        with Terminal(*COMMAND[1:], *arguments, environment=given, columns=columns) as terminal:
            shown = terminal.rest()
            assert terminal.exit_code() == 0, shown
        return shown


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with temporary_root() as root:
        inherited = {name: value for name, value in os.environ.items() if name not in ("KERNEL_ADDRESS", "NO_COLOR")}
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {
            **inherited,
            "KERNEL_TMPDIR": root,
            "PYTHONPATH": paths,
            "TERM": "xterm",
            "PYTHONIOENCODING": "utf-8",
        }
        file = os.path.join(root, "program.py")
        Path(file).write_text(PROGRAM)
        subprocess.run(
            [*COMMAND, "start", "--head", "--port", "0", "--num-cpus", "2", "--object-store-memory", "64MB"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        program = subprocess.Popen(
            [sys.executable, file], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            demo = Demo(environment, json.loads(line), file)
            wait_until(lambda: is_settled(demo), "all is known of what the program did")
            yield demo
        finally:
            program.kill()
            program.communicate()
            subprocess.run([*COMMAND, "stop", "--force"], env=environment, stdout=subprocess.DEVNULL)


def is_settled(demo: Demo) -> bool:
    """Say whether what is asked for was sent, and what was written has arrived."""
    status = demo.json("status")
    asked = status["waiting_count"] >= 1 and len(status["placement_groups"]) == 1
    return asked and len(demo.shown("logs").splitlines()) >= 2


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


# -- status --------------------------------------------------------------------------------------------------------


def test_status_as_json_has_everything(demo: Demo) -> None:
    status = demo.json("status")
    assert status["stays"] and status["total"]["CPU"] == 2 and status["scheduler"] == "fifo"
    (job,) = status["jobs"]
    assert (job["pid"], job["namespace"], job["script"]) == (demo.said["pid"], "demo", demo.program)
    (actor,) = status["actors"]
    assert (actor["name"], actor["state"], actor["pid"]) == ("archive", "ALIVE", demo.said["keeper_pid"])
    assert status["waiting_count"] >= 1
    assert status["waiting"][0]["name"] == "train" and "GPU: 2" in status["waiting"][0]["reason"]
    assert status["store"]["capacity"] == 64_000_000 and status["store"]["objects"] == 1
    assert actor["pid"] in [worker["pid"] for worker in status["workers"]]
    assert [one["session"] for one in status["sessions"]] == [status["name"]]
    (memory,) = status["memory"].values()
    (name, used, total), *_ = memory["limits"]
    assert name == "this machine's memory" and 0 < used < total
    assert (memory["threshold"], memory["quotas"], memory["ends"]) == (0.95, "actors", [])


def test_status_fits_a_terminal_and_names_what_waits(demo: Demo) -> None:
    shown = demo.on_terminal("status")
    plain = click.unstyle(shown)
    assert plain != shown
    assert max(map(len, plain.splitlines())) <= 100
    assert "\nMEMORY  guard cheapest\n" in plain.replace("\r", "")
    for text in ("RESOURCE", "CPU", "OBJECT STORE", "1 alive", "archive", "train", "wants CPU: 1, GPU: 2", "demo"):
        assert text in plain


def test_colours_are_for_terminals_that_want_them(demo: Demo) -> None:
    assert "\x1b[" not in demo.shown("status")
    assert "\x1b[" not in demo.on_terminal("status", NO_COLOR="1")
    assert "\x1b[1m" in demo.on_terminal("status")


def test_a_tool_is_no_program_and_disturbs_nobody(demo: Demo) -> None:
    before = demo.json("status")
    for arguments in (["memory"], ["explain", "archive"], ["stack", "--own"]):
        demo.shown(*arguments)
    after = demo.json("status")
    assert after["jobs"] == before["jobs"]
    assert all(row in before["workers"] for row in after["workers"])  # an idle one may end meanwhile


# -- memory --------------------------------------------------------------------------------------------------------


def test_lists_can_be_filtered(demo: Demo) -> None:
    (actor,) = demo.json("list", "actors", "-f", "state=alive", "-f", "name=archive")
    assert (actor["class_name"], actor["pid"], actor["is_detached"]) == ("Keeper", demo.said["keeper_pid"], False)
    states = {"double": set(), "train": set(), "Keeper.sleep_soundly": set(), "Keeper.keep": set()}  # type: ignore[var-annotated]
    for row in demo.json("list", "tasks"):
        states[row["name"]].add(row["state"])
    assert states == {
        "double": {"FINISHED", "PENDING_ARGS_AVAIL"},
        "train": {"PENDING_NODE_ASSIGNMENT"},
        "Keeper.sleep_soundly": {"RUNNING"},
        "Keeper.keep": {"FINISHED"},
    }
    (later,) = demo.json("list", "tasks", "--filter", "name=double", "--filter", "state!=FINISHED")
    assert demo.json("get", "tasks", later["task_id"]) == later
    assert later["required_resources"] == {"CPU": 1.0} and demo.said["later"].startswith(later["task_id"])
    (head,) = demo.json("list", "nodes", "-f", "is_head_node=true")
    assert head["labels"] == {"kernel/node-id": head["node_id"]}
    assert {row["worker_type"] for row in demo.json("list", "workers")} == {"DRIVER", "WORKER"}
    (job,) = demo.json("list", "jobs")
    assert (job["status"], job["entrypoint"], job["pid"]) == ("RUNNING", demo.program, demo.said["pid"])
    (gang,) = demo.json("list", "placement_groups", "-f", "state=PENDING")
    assert gang["name"] == "gang" and [bundle["node_id"] for bundle in gang["bundles"]] == [None, None]
    assert demo.json("summary", "tasks")["double"]["state_counts"] == {"FINISHED": 1, "PENDING_ARGS_AVAIL": 1}
    sizes = [row["object_size"] for row in demo.json("list", "objects", "-f", f"object_id={demo.said['array']}")]
    assert sizes and min(size for size in sizes if size is not None) >= ARRAY_BYTES


def test_lists_are_tables_and_details_stand_below_each_other(demo: Demo) -> None:
    head, *rows = demo.shown("list", "tasks", "-f", "name=train").splitlines()
    assert head.split()[:4] == ["TASK_ID", "ATTEMPT_NUMBER", "NAME", "STATE"] and len(rows) == 3
    assert all("train" in row and "PENDING_NODE_ASSIGNMENT" in row for row in rows)
    assert len(demo.shown("list", "tasks", "-f", "name=train", "--limit", "2").splitlines()) == 3
    detailed = demo.shown("list", "tasks", "-f", "name=train", "--detail", "--limit", "1").splitlines()
    assert 'required_resources  {"CPU": 1.0, "GPU": 2.0}' in detailed
    assert demo.shown("list", "actors", "-f", "state=DEAD") == "no actors with state=DEAD\n"
    assert "Keeper" in demo.shown("summary", "actors") and "ALIVE: 1" in demo.shown("summary", "actors")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["list", "tasks", "-f", "stat=x"], "kernel: tasks can't be filtered by 'stat'; did you mean 'state'?"),
        (["list", "tasks", "-f", "state<x"], "kernel: 'state<x' is not a filter; write COLUMN=VALUE or COLUMN!=VALUE"),
        (["list", "tasks", "-f", "worker_pid=x"], "kernel: worker_pid is a number, not 'x'"),
        (["get", "actors", "ffff"], "kernel: there is none of the actors with the id 'ffff'; see: kernel list actors"),
    ],
)
def test_lists_refuse_what_there_is_not(demo: Demo, arguments: list[str], line: str) -> None:
    assert demo.refused(*arguments) == line


def test_memory_is_exact_to_the_byte(demo: Demo) -> None:
    memory = demo.memory()
    assert memory["store"]["used"] == sum(row["size"] for row in memory["stored"]) >= ARRAY_BYTES
    (driver,) = (one for one in memory["processes"] if one["role"] == "driver")
    assert driver["pid"] == demo.said["pid"] and driver["count"] == len(driver["objects"])
    assert driver["bytes"] == sum(row["size"] or 0 for row in driver["objects"])
    assert memory["unreferenced"] == [] and memory["silent"] == []


def test_memory_says_who_holds_what_how_and_from_where(demo: Demo) -> None:
    memory = demo.memory()
    (driver,) = (one for one in memory["processes"] if one["role"] == "driver")
    rows = {row["object_id"]: row for row in driver["objects"]}
    array, waiting, doubled = (rows[demo.said[name]] for name in ("array", "waiting", "doubled"))
    line = PROGRAM.splitlines().index("boxed = kernel.put([small])")
    assert array["reference"] == "LOCAL_REFERENCE" and array["state"] == "sealed"
    assert array["site"] == f"(put object) {demo.program}:<module>:{line - 1}"
    assert waiting["state"] == "pending" and waiting["size"] is None
    assert waiting["site"].startswith(f"(task call) {demo.program}:")
    assert doubled["site"].startswith(f"(task call) {demo.program}:"), "the line is known after the task is done"
    (keeper,) = (one for one in memory["processes"] if one["pid"] == demo.said["keeper_pid"])
    borrowed = {row["object_id"]: row for row in keeper["objects"]}[demo.said["array"]]
    assert (borrowed["size"], borrowed["state"]) == (array["size"], "sealed")
    assert keeper["process"] in array["borrowers"] and keeper["name"] == "Keeper"


def test_memory_shows_as_many_as_asked_for_in_the_order_asked_for(demo: Demo) -> None:
    (head, *rows) = [line for line in demo.shown("memory", "--limit", "2").split("\n\n")[1].splitlines()]
    assert head.startswith(f"; driver pid={demo.said['pid']} ({demo.program})")
    assert rows[0].split() == ["OBJECT", "ID", "SIZE", "REFERENCE", "TYPE", "STATE", "CALL", "SITE"]
    assert demo.said["array"] in rows[1] and len(rows) == 4 and "smaller ones (--limit shows more)" in rows[3]
    by_id = demo.json("memory", "--sort", "id")["processes"]
    for process in by_id:
        ids = [row["object_id"] for row in process["objects"]]
        assert ids == sorted(ids)


@pytest.mark.parametrize("columns", [100, 200])
def test_memory_fits_a_terminal(demo: Demo, columns: int) -> None:
    plain = click.unstyle(demo.on_terminal("memory", columns=columns))
    assert max(map(len, plain.splitlines())) <= columns
    assert "program.py:<module>:" in plain


def test_memory_names_a_process_that_does_not_answer(demo: Demo) -> None:
    os.kill(demo.said["keeper_pid"], signal.SIGSTOP)
    try:
        done = demo.run("memory")
    finally:
        os.kill(demo.said["keeper_pid"], signal.SIGCONT)
    assert done.returncode == 0 and demo.said["array"] in done.stdout
    assert f"process {demo.said['keeper_pid']} did not answer" in done.stderr


def test_timeline_and_explain_name_a_process_that_does_not_answer(demo: Demo) -> None:
    pid = demo.said["keeper_pid"]
    node = demo.json("status")["node"]
    os.kill(pid, signal.SIGSTOP)
    try:
        timeline, unknown = demo.run("timeline", "-"), demo.run("explain", "abcdef0123456789")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert f"process {pid} on node {node} did not answer within 2 s; its calls are missing here" in timeline.stderr
    assert timeline.returncode == 0 and json.loads(timeline.stdout)
    assert f"pid {pid} on node {node} did not answer within 2 s, and may know more of this" in unknown.stderr
    assert unknown.returncode == 2 and "knows no object" in unknown.stderr


# -- explain -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("array", "it is ready (stored)"),
        ("doubled", "it is ready (inline)"),
        ("waiting", r"train\(\) waits for a worker: .*GPU: 2.*there is none"),
        ("later", r"double\(\) waits for 1 of its arguments: train\(\)"),
        ("sleeping", r"Keeper\.sleep_soundly\(\) is running in actor"),
    ],
)
def test_explain_says_why_an_object_is_not_there(demo: Demo, name: str, reason: str) -> None:
    id = demo.said[name]
    (row,) = demo.json("explain", f"ObjectRef({id})")
    assert (row["kind"], row["id"]) == ("object", id)
    assert re.search(reason.replace("(stored)", r"\(stored\)").replace("(inline)", r"\(inline\)"), row["explanation"])


def test_explain_takes_an_actor_by_name_class_id_and_repr(demo: Demo) -> None:
    (actor,) = demo.json("status")["actors"]
    for what in ("archive", "Keeper", actor["actor_id"], demo.said["keeper"]):
        (row,) = demo.json("explain", what)
        assert (row["kind"], row["id"]) == ("actor", actor["actor_id"])
        assert row["explanation"] == f"actor Keeper 'archive' is alive, pid {demo.said['keeper_pid']}"


def test_explain_takes_a_placement_group_by_name_and_repr(demo: Demo) -> None:
    gang = demo.said["gang"]
    for what in ("gang", gang, gang[len("PlacementGroup(") :][:9]):
        (row,) = demo.json("explain", what)
        assert (row["kind"], row["id"]) == ("placement group", gang[len("PlacementGroup(") : -1])
        assert row["explanation"].startswith("placement group 'gang' is PENDING: it wants 2 x (GPU: 1) (SPREAD)")


def test_status_lists_placement_groups(demo: Demo) -> None:
    (row,) = demo.json("status")["placement_groups"]
    assert (row["name"], row["state"], row["bundles"]) == ("gang", "PENDING", {"0": {"GPU": 1.0}, "1": {"GPU": 1.0}})
    shown = demo.shown("status")
    assert "PLACEMENT GROUPS  1 pending" in shown
    assert re.search(r"gang +PENDING +SPREAD +0/2 on 0 nodes", shown)


def test_explain_takes_the_beginning_of_an_id(demo: Demo) -> None:
    rows = demo.json("explain", demo.said["array"][:7])
    assert {demo.said[name] for name in ("array", "small", "waiting")} <= {row["id"] for row in rows}
    shown = demo.shown("explain", demo.said["waiting"])
    assert shown.startswith(f"object {demo.said['waiting']}\n  train() waits for a worker")


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("arhcive", "did you mean 'archive'?"),
        (
            "ffffffffffff",
            "knows no object, no actor and no placement group 'ffffffffffff'; an object without references is",
        ),
        ("abc", "'abc' is too short for an id; give at least 4 characters"),
    ],
)
def test_explain_refuses_what_it_does_not_know(demo: Demo, what: str, line: str) -> None:
    assert line in demo.refused("explain", what)


# -- logs ----------------------------------------------------------------------------------------------------------


def test_logs_show_lines_with_time_and_origin(demo: Demo) -> None:
    lines = demo.shown("logs").splitlines()
    (doubling,) = (line for line in lines if line.endswith("doubling 21"))
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} \(double pid=\d+\) doubling 21", doubling)
    assert any(line.endswith(f"(Keeper pid={demo.said['keeper_pid']}) oh\tno") for line in lines)


@pytest.mark.parametrize(
    "choice", [["--actor", "archive"], ["--actor", "Keeper"], ["--pid", "KEEPER"], ["--worker", "ID"]]
)
def test_logs_of_one_actor_or_process(demo: Demo, choice: list[str]) -> None:
    (actor,) = demo.json("status")["actors"]
    places = {"KEEPER": str(actor["pid"]), "ID": actor["worker_id"]}
    (line,) = demo.shown("logs", "--json", *(places.get(one, one) for one in choice)).splitlines()
    shown = json.loads(line)
    assert (shown["pid"], shown["stream"], shown["text"]) == (actor["pid"], "err", "oh\tno")


def test_logs_show_the_last_lines(demo: Demo) -> None:
    lines = demo.shown("logs").splitlines()
    assert demo.shown("logs", "-n", "1").splitlines() == lines[-1:]
    assert demo.shown("logs", "-n", "0") == ""


def test_logs_refuse_what_is_not_there(demo: Demo) -> None:
    assert "did you mean 'archive'?" in demo.refused("logs", "--actor", "archiv")
    assert f"{demo.said['keeper_pid']}" in demo.refused("logs", "--pid", "1")
    assert "is no id" in demo.refused("logs", "--worker", "xyz")


def test_logs_of_the_agent(demo: Demo) -> None:
    assert demo.run("logs", "--agent").returncode == 0


SPEAK = """
import kernel
kernel.init(address="auto", log_to_driver=False)
kernel.get(kernel.remote(lambda: print("heard")).remote())
"""


ACTORS = """
import os, sys, kernel
kernel.init(address="auto", log_to_driver=False)

@kernel.remote(num_cpus=0)
class Speaker:
    def __init__(self):
        print("I am", os.getpid())
    def speak(self):
        print("I speak")
    def die(self):
        os._exit(1)

gone = Speaker.options(name="gone").remote()
kernel.get(gone.speak.remote())
kernel.kill(gone)
pending = Speaker.options(name="pending", num_cpus=64).remote()
phoenix = Speaker.options(name="phoenix", max_restarts=1).remote()
kernel.get(phoenix.speak.remote())
print("ready", flush=True)
sys.stdin.readline()
phoenix.die.remote()
sys.stdin.readline()
"""


def test_logs_of_actors_that_are_dead_pending_or_restart() -> None:
    with temporary_root() as root:
        environment = {**os.environ, "KERNEL_TMPDIR": root, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

        def run(*arguments: str) -> tuple[int, str, str]:
            done = subprocess.run(
                [*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS
            )
            return done.returncode, done.stdout, done.stderr

        def follow() -> subprocess.Popen[str]:
            command = [*COMMAND, "logs", "--actor", "phoenix", "--follow"]
            return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        assert run("start", "--head", "--port", "0", "--num-cpus", "1")[0] == 0
        program = subprocess.Popen(
            [sys.executable, "-c", ACTORS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert program.stdin is not None and program.stdout is not None and program.stdout.readline() == "ready\n"
            wait_until(lambda: len(run("logs", "--actor", "gone")[1].splitlines()) == 2, "the dead actor's output")
            assert run("logs", "--actor", "pending") == (0, "", "actor pending has written nothing so far\n")
            assert run("logs", "--actor", "")[0] == 2
            with follow() as following:
                assert following.stdout is not None
                first = [following.stdout.readline() for _ in range(2)]
                print(file=program.stdin, flush=True)
                again = following.stdout.readline()
                run("stop")
            assert [line.split()[-2] for line in (*first, again)] == ["am", "I", "am"]
            assert again.split()[-1] != first[0].split()[-1], "another process"
        finally:
            program.kill()
            program.communicate()
            run("stop", "--force")


def test_following_logs_shows_new_lines_until_the_session_ends(demo: Demo) -> None:
    with temporary_root() as root:
        environment = {**demo.environment, "KERNEL_TMPDIR": root}
        subprocess.run(
            [*COMMAND, "start", "--head", "--port", "0", "--num-cpus", "1"],
            env=environment,
            check=True,
            capture_output=True,
        )
        follow = subprocess.Popen(
            [*COMMAND, "logs", "--follow"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            for _ in range(2):
                subprocess.run([sys.executable, "-c", SPEAK], env=environment, check=True, timeout=SECONDS)
                assert follow.stdout is not None and follow.stdout.readline().endswith("heard\n")
        finally:
            subprocess.run([*COMMAND, "stop"], env=environment, check=True, capture_output=True)
        output, errors = follow.communicate(timeout=SECONDS)
        assert (follow.returncode, output) == (0, "")
        assert errors.startswith("session session_") and errors.endswith("has ended\n")


# -- stack and timeline --------------------------------------------------------------------------------------------


def test_stack_shows_where_an_actor_is_by_asking_it(demo: Demo) -> None:
    rows = {row["pid"]: row for row in demo.json("stack", "--own")}
    assert set(rows) >= {demo.said["pid"], demo.said["keeper_pid"]}
    keeper = rows[demo.said["keeper_pid"]]
    assert keeper["by"] == "itself" and keeper["name"].startswith("worker, actor: Keeper")
    functions = [frame["function"] for frame in keeper["threads"][0]["frames"]]
    assert any(function.endswith("sleep_soundly") for function in functions)
    shown = demo.shown("stack", "--own", "--pid", str(demo.said["keeper_pid"]))
    assert shown.startswith(f"pid {demo.said['keeper_pid']}  worker, actor: Keeper\n  MainThread\n")
    assert "sleep_soundly" in shown.splitlines()[2] and "frames of the kernel" in shown.splitlines()[3]


def test_stack_uses_py_spy_where_there_is_one(demo: Demo) -> None:
    (row,) = demo.json("stack", "--pid", str(demo.said["keeper_pid"]))
    assert row["by"] in ("py-spy", "itself")  # py-spy may be missing here, or not be allowed to look
    functions = [frame["function"] for thread in row["threads"] for frame in thread["frames"]]
    assert any(function.endswith("sleep_soundly") for function in functions)


def test_stack_refuses_a_pid_that_is_none_of_ours(demo: Demo) -> None:
    assert f"has no process 1; there are {min(demo.said['pid'], demo.said['keeper_pid'])}" in demo.refused(
        "stack", "--pid", "1"
    )


def test_timeline_is_a_chrome_trace(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    shown = demo.shown("timeline", str(file))
    assert str(file) in shown and "chrome://tracing" in shown
    events = json.loads(file.read_text())
    (span,) = (event for event in events if event["name"] == "double")
    assert span["ph"] == "X" and span["dur"] >= 0 and span["args"]["task_id"] == demo.said["doubled"][:32]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names[demo.said["pid"]] == "program program.py" and names[demo.said["keeper_pid"]] == "worker Keeper"
    assert json.loads(demo.shown("timeline", "-")) == events
    assert demo.run("timeline", str(tmp_path / "missing" / "file")).returncode == 1


# -- the session asked ---------------------------------------------------------------------------------------------


def test_the_session_is_chosen_by_a_part_of_its_name_and_by_the_environment(demo: Demo) -> None:
    name = demo.json("status")["name"]
    assert demo.json("status", "--address", name[-12:])["name"] == name
    assert f"there is no session 'elsewhere'; there are {name}" in demo.refused("status", "--address", "elsewhere")
    nearly = name[:-1] + ("0" if name[-1] != "0" else "1")
    assert f"did you mean {name!r}?" in demo.refused("memory", "--address", nearly)
    done = subprocess.run(
        [*COMMAND, "status"], env={**demo.environment, "KERNEL_ADDRESS": "gone"}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "there is no session 'gone'" in done.stderr


def test_microbenchmark_measures_in_a_session_of_its_own(demo: Demo) -> None:
    environment = {**demo.environment, "KERNEL_ADDRESS": "gone"}
    done = subprocess.run(
        [*COMMAND, "microbenchmark", "--quick", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) >= 10 and all(row["rate"] > 0 and row["unit"] for row in rows)
    assert [one["session"] for one in demo.json("status")["sessions"]] == [demo.json("status")["name"]]
