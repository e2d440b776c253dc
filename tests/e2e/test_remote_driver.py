"""A program outside the cluster, which reaches it by the head's one port, behaves as one on a node does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy
import pytest

import kernel
from kernel.testing import Cluster
from kernel.testing.command_line import CommandLine
from kernel.testing.constants import constants
from kernel.testing.faults import kill, title_of, wait_until
from kernel.testing.session import temporary_root
from kernel.testing.socket_owners import connections_of
from kernel_processes.node.sessions import running_sessions
from kernel_processes.system.processes import descendants_of, is_alive

SECONDS = 120.0
A, B = ({"resources": {name: 0.01}, "num_cpus": 0} for name in "ab")
LARGE = 12_500_000
"""So many numbers are 100 MB."""


@pytest.fixture(scope="module")
def cluster():
    """Two nodes, and this program outside."""
    kernel.shutdown()
    options = {"num_cpus": 2, "resources": {"a": 100}, "object_store_memory": 512 << 20}
    with constants({"kernel_processes.protocol.heartbeats.CLIENT_PATIENCE": 1 / 3}), Cluster(**options) as cluster:
        cluster.add_node(num_cpus=2, resources={"b": 100}, object_store_memory=512 << 20)
        cluster.earlier = set(connections_of([os.getpid()]))  # what other tests have left open
        cluster.connect(remote=True, namespace="tests")
        yield cluster


pytestmark = pytest.mark.usefixtures("cluster")


@kernel.remote(num_cpus=0)
def total(array):
    return float(array.sum())


@kernel.remote(num_cpus=0)
def total_inside(refs):
    return [float(kernel.get(ref).sum()) for ref in refs]


@kernel.remote(num_cpus=0)
def ones(count):
    return numpy.ones(count)


@kernel.remote(num_cpus=0)
class Keeper:
    def __init__(self):
        self.kept = []

    def keep(self, refs):
        self.kept += refs

    def total(self):
        return [float(kernel.get(ref).sum()) for ref in self.kept]

    def give(self):
        return self.kept

    def pid(self):
        return os.getpid()


PRELUDE = """
import kernel, numpy, os, sys, time
from kernel_processes.runtime import process_runtime

process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment
"""


def program(cluster, text, *arguments):
    """Start another program outside, and return its process."""
    code = PRELUDE + textwrap.dedent(text)
    environment = {
        **os.environ,
        "KERNEL_ADDRESS": cluster.address,
        "KERNEL_TMPDIR": cluster.root,
        "KERNEL_TOKEN": Path(cluster.token_file).read_text(),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def agent_of(process):
    """Return the agent of a program outside."""
    (agent,) = [pid for pid in descendants_of(process.pid) if title_of(pid) == "kernel: agent"]
    return agent


# -- what it may do ----------------------------------------------------------------------------------------------------


def test_nothing_of_it_counts_as_a_node(cluster):
    assert {row["NodeID"] for row in kernel.nodes()} == {node.id for node in cluster.nodes}
    assert kernel.cluster_resources()["CPU"] == 4
    used = kernel.get([where.remote() for _ in range(200)])
    assert set(used) <= {node.id for node in cluster.nodes}
    assert kernel.get_runtime_context().get_node_id() not in used


@kernel.remote(scheduling_strategy="SPREAD")
def where():
    return kernel.get_runtime_context().get_node_id()


def test_the_cluster_shows_it_among_the_programs(cluster):
    query = kernel.api.session.ensure_session().query
    (mine,) = [job for job in query("status")["jobs"] if job["pid"] == os.getpid()]
    assert mine["outside"] == socket.gethostname()
    everybody = {node.id for node in cluster.nodes}
    wait_until(lambda: set(query("status")["memory"]) == everybody, SECONDS, "an answer of all nodes")
    wait_until(lambda: query("status")["store"]["capacity"] == 2 * (512 << 20), SECONDS, "an answer of both stores")


def test_the_command_line_shows_it_by_the_same_address(cluster):
    with temporary_root() as elsewhere:
        done = CommandLine(elsewhere).run("status", "--address", cluster.address, "--token-file", cluster.token_file)
    assert done.returncode == 0, done.stderr
    assert "NODES  2 alive" in done.stdout
    assert f"(outside, on {socket.gethostname()})" in done.stdout


def test_it_connects_to_the_one_port_of_the_head_and_listens_nowhere(cluster):
    array = ones.options(**B).remote(LARGE // 100)
    assert kernel.get(total.options(**A).remote(array)) == kernel.get(array).sum()
    assert kernel.get(total.options(**B).remote(kernel.put(numpy.ones(LARGE // 100)))) == LARGE // 100
    mine = [os.getpid(), *(pid for pid in descendants_of(os.getpid()) if is_agent_of_mine(pid))]
    assert len(mine) == 2
    _, _, port = cluster.head.gateway.rpartition(":")
    connected = set(connections_of(mine)) - cluster.earlier
    assert {place for _, place, _ in connected if place} == {f"127.0.0.1:{port}"}
    assert [place for place, other, _ in connected if not other] == []


def is_agent_of_mine(pid):
    session = kernel.api.session.ensure_session().session_directory
    return title_of(pid) == "kernel: agent" and any(session in name for name in unix_sockets_of(pid))


def unix_sockets_of(pid):
    """Return the paths of the UNIX sockets that a process has."""
    inodes = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{descriptor}").removeprefix("socket:[").rstrip("]"))
        except OSError:
            continue
    with open("/proc/net/unix") as file:
        rows = [line.split() for line in file]
    return [row[7] for row in rows if len(row) == 8 and row[6] in inodes]


@pytest.mark.parametrize("there", [A, B], ids=["head", "node"])
def test_100_mb_go_both_ways(there):
    given = numpy.arange(LARGE)
    ref = kernel.put(given)
    assert kernel.get(total.options(**there).remote(ref)) == float(given.sum())
    made = ones.options(**there).remote(LARGE)
    assert (kernel.get(made, timeout=SECONDS) == 1).all()


def test_what_only_it_has_is_fetched_from_it_by_whoever_gets_the_reference():
    keepers = [Keeper.options(**one).remote() for one in (A, B)]
    refs = [kernel.put(numpy.full(LARGE // 50, number)) for number in (1, 2)]
    kernel.get([keeper.keep.remote(refs) for keeper in keepers])
    expected = [LARGE // 50, 2 * (LARGE // 50)]
    assert kernel.get([keeper.total.remote() for keeper in keepers]) == [expected] * 2
    assert kernel.get(total_inside.options(**B).remote(refs)) == expected


def test_many_small_tasks_and_calls():
    @kernel.remote
    def double(x):
        return 2 * x

    assert kernel.get([double.remote(x) for x in range(5000)]) == [2 * x for x in range(5000)]


def test_a_detached_actor_outlives_its_program_and_others_end_with_it(cluster):
    first = program(
        cluster,
        """
        kernel.init(namespace="tests")

        @kernel.remote(num_cpus=0)
        class Counter:
            count = 0
            def up(self):
                self.count += 1
                return self.count, os.getpid()

        kept = Counter.options(name="kept", lifetime="detached").remote()
        named = Counter.options(name="named").remote()
        print(*kernel.get(kept.up.remote()), *kernel.get(named.up.remote()))
        """,
    )
    shown, errors = first.communicate(timeout=SECONDS)
    assert first.returncode == 0, errors
    _, kept, _, named = map(int, shown.split())
    wait_until(lambda: not is_alive(named), SECONDS, "the end of the actor")
    actor = kernel.get_actor("kept")
    assert kernel.get(actor.up.remote()) == (2, kept)
    wait_until(lambda: not is_named("named"), SECONDS, "the end of the name")
    kernel.kill(actor)


def is_named(name):
    """Return whether there is an actor of that name."""
    try:
        kernel.get_actor(name)
    except kernel.exceptions.ActorNotFoundError:
        return False
    return True


def test_two_programs_outside_share_an_object_through_an_actor(cluster):
    keeper = Keeper.options(name="keeper", **B).remote()
    kernel.get(keeper.keep.remote([kernel.put(numpy.ones(LARGE // 50))]))
    other = program(
        cluster,
        """
        kernel.init(namespace="tests")
        keeper = kernel.get_actor("keeper")
        (ref,) = kernel.get(keeper.give.remote())
        print(int(kernel.get(ref, timeout=120).sum()))
        """,
    )
    shown, errors = other.communicate(timeout=SECONDS)
    assert shown == f"{LARGE // 50}\n", errors


def test_output_of_workers_is_shown_where_the_program_runs(cluster):
    other = program(
        cluster,
        """
        kernel.init()

        @kernel.remote(num_cpus=0, resources={"b": 0.01})
        def say():
            print("hello from", os.getpid())
            return os.getpid()

        print(kernel.get(say.remote()))
        kernel.shutdown()
        """,
    )
    shown, errors = other.communicate(timeout=SECONDS)
    (pid,) = [line for line in shown.splitlines() if line.isdigit()]
    assert f"(say pid={pid}) hello from {pid}" in shown + errors


def test_placement_groups_generators_and_errors():
    group = kernel.placement_group([{"a": 1}, {"b": 1}], strategy="STRICT_SPREAD")
    assert group.wait(SECONDS)

    @kernel.remote(num_cpus=0, num_returns="streaming")
    def count(n):
        yield from range(n)
        raise KeyError("enough")

    strategy = kernel.PlacementGroupSchedulingStrategy(group, 1)
    stream = count.options(scheduling_strategy=strategy, resources={"b": 0.5}).remote(3)
    assert [kernel.get(next(stream)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="enough"):
        kernel.get(next(stream))
    kernel.remove_placement_group(group)


def test_a_task_is_cancelled():
    @kernel.remote(**B)
    def endless():
        while True:
            pass

    ref = endless.remote()
    kernel.cancel(ref)
    with pytest.raises(kernel.exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)


def test_files_of_an_environment_travel(tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    (tmp_path / "remote_words.py").write_text("WORD = 'module'\n")

    @kernel.remote(num_cpus=0, runtime_env={"working_dir": str(tmp_path), "env_vars": {"REMOTE": "1"}})
    def look():
        import remote_words

        with open("words.txt") as file:
            return file.read(), remote_words.WORD, os.environ["REMOTE"]

    assert kernel.get([look.options(**one).remote() for one in (A, B)]) == [("hello", "module", "1")] * 2


def test_a_directory_that_only_its_machine_has_is_no_hindrance(cluster, tmp_path):
    (tmp_path / "gone").mkdir()
    other = program(
        cluster,
        """
        import shutil
        os.chdir(sys.argv[1])
        kernel.init()
        os.rmdir(sys.argv[1])

        @kernel.remote(num_cpus=0)
        def look():
            import json, sqlite3  # of the Python there
            return os.getcwd(), os.environ.get("KERNEL_ADDRESS"), os.environ.get("KERNEL_TOKEN")

        print(kernel.get(look.remote()))
        """,
        str(tmp_path / "gone"),
    )
    shown, errors = other.communicate(timeout=SECONDS)
    assert other.returncode == 0, errors
    assert str(tmp_path / "gone") not in shown and shown.rstrip().endswith("None, None)")


# -- what it may not do ------------------------------------------------------------------------------------------------


def test_nothing_runs_with_it():
    own = kernel.get_runtime_context().get_node_id()
    strategy = kernel.NodeAffinitySchedulingStrategy(own, soft=False)
    with pytest.raises(kernel.exceptions.InfeasibleError, match="that is a remote driver's, where nothing runs"):
        kernel.get(where.options(scheduling_strategy=strategy).remote(), timeout=SECONDS)
    soft = kernel.NodeAffinitySchedulingStrategy(own, soft=True)
    assert kernel.get(where.options(scheduling_strategy=soft).remote(), timeout=SECONDS) != own


def test_resources_are_those_of_a_node_that_is_named(cluster):
    with pytest.raises(kernel.exceptions.OptionError, match="a remote driver has no node of its own"):
        kernel.set_resource("seat", 1)
    kernel.set_resource("seat", 1, node_id=cluster.head.id)
    wait_until(lambda: kernel.cluster_resources().get("seat") == 1, SECONDS, "the resource")
    kernel.set_resource("seat", 0, node_id=cluster.head.id)


def test_nobody_else_joins_by_it(cluster):
    session = kernel.api.session.ensure_session().session_directory
    assert session not in [one.directory for one in running_sessions(cluster.root)]


# -- its end -----------------------------------------------------------------------------------------------------------

HOLD = """
kernel.init(namespace="tests")

@kernel.remote(num_cpus=0.5, resources={"b": 10})
class Holder:
    def __init__(self):
        self.mine = kernel.put(numpy.ones(1_000_000))
    def pid(self):
        return os.getpid()

holder = Holder.remote()
kept = Holder.options(name=sys.argv[1], lifetime="detached", num_cpus=0, resources={"b": 1}).remote()
put = kernel.put(numpy.ones(1_000_000))

@kernel.remote(num_cpus=0)
def read(array):
    return float(array.sum())

assert kernel.get(read.options(resources={"a": 1}).remote(put)) == 1_000_000
print(kernel.get(holder.pid.remote()), kernel.get(kept.pid.remote()), flush=True)
sys.stdin.read()
"""


def stored():
    """Return the objects that lie in the stores of all nodes, as far as these answer."""
    return {object for object, *_ in kernel.api.session.ensure_session().query("memory")["stored"]}


def test_when_it_is_killed_everything_of_it_goes(cluster):
    before = stored()
    victims = ["program", "agent", "both"]
    processes = {victim: program(cluster, HOLD, victim) for victim in victims}
    actors = {victim: [*map(int, process.stdout.readline().split())] for victim, process in processes.items()}
    agents = {victim: agent_of(process) for victim, process in processes.items()}
    wait_until(lambda: len(stored() - before) == 9, SECONDS, "the objects of the programs and of their actors")
    for victim, process in processes.items():
        if victim != "agent":
            kill(process.pid)
        if victim != "program":
            kill(agents[victim])
    for victim, process in processes.items():
        for pid in (actors[victim][0], agents[victim]):
            wait_until(lambda pid=pid: not is_alive(pid), SECONDS, f"the end of {pid}")
        process.communicate(timeout=SECONDS)
    wait_until(lambda: kernel.available_resources()["b"] == 97, SECONDS, "what their actors held")
    wait_until(lambda: len(stored() - before) == 3, SECONDS, "the end of their objects")  # but those of detached actors
    gone = 'event="a remote driver is gone"'
    wait_until(lambda: cluster.head.log().count(gone) >= 3, SECONDS, "a word of the head on each")
    for victim in victims:
        assert is_alive(actors[victim][1])
        kernel.kill(kernel.get_actor(victim))
    wait_until(lambda: not stored() - before, SECONDS, "the end of the actors' objects")


def test_it_goes_on_when_the_process_of_the_relay_was_killed(cluster):
    keeper = Keeper.options(**B).remote()
    pid = kernel.get(keeper.pid.remote())
    refs = [ones.options(**B).remote(LARGE // 10) for _ in range(4)]
    (relay,) = [pid for pid in descendants_of(cluster.head.agent) if title_of(pid) == "kernel: relay"]
    kill(relay)
    assert kernel.get([keeper.pid.remote() for _ in range(100)], timeout=SECONDS) == [pid] * 100
    assert [float(array.sum()) for array in kernel.get(refs, timeout=SECONDS)] == [LARGE // 10] * 4
