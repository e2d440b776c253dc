"""Programs on several nodes: output, environments, questions, several drivers, and what is left when one ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy
import pytest

import kernel

A, B, C = ({"resources": {name: 0.01}, "num_cpus": 0} for name in "abc")

SECONDS = 120.0


@pytest.fixture
def project(tmp_path):
    """A directory with a data file and a module."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "words.txt").write_text("hello")
    (root / "cluster_module.py").write_text("VALUE = 'module'\n")
    (root / "large.bin").write_bytes(os.urandom(3 << 20))
    return root


def ask(method):
    return kernel.api.session.ensure_session().query(method)


def program(cluster, text, node=None):
    """Start another driver of the cluster and return its process."""
    code = "import kernel, numpy, os, sys, time\n" + textwrap.dedent(text)
    environment = {
        **os.environ,
        "KERNEL_ADDRESS": (node or cluster.head).directory,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


# -- environments ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_the_files_of_an_environment_reach_every_node(cluster, project):
    @kernel.remote(num_cpus=0, runtime_env={"working_dir": str(project), "env_vars": {"CLUSTER_A": "1"}})
    def look():
        import cluster_module

        with open("words.txt") as file:
            return file.read(), cluster_module.VALUE, os.environ["CLUSTER_A"], os.path.getsize("large.bin")

    assert kernel.get([look.options(**one).remote() for one in (A, B, C)]) == [("hello", "module", "1", 3 << 20)] * 3


@pytest.mark.usefixtures("nothing_left")
def test_an_environment_that_a_task_elsewhere_asks_for(cluster, project):
    @kernel.remote(**B)
    def outer(path):
        @kernel.remote(runtime_env={"py_modules": [path]}, **C)
        def inner():
            import cluster_module

            return cluster_module.VALUE

        return kernel.get(inner.remote())

    assert kernel.get(outer.remote(str(project / "cluster_module.py"))) == "module"


@pytest.mark.usefixtures("nothing_left")
def test_an_actor_has_its_environment_on_another_node(cluster, project):
    @kernel.remote(runtime_env={"working_dir": str(project)}, **B)
    class Reader:
        def read(self):
            with open("words.txt") as file:
                return file.read()

    assert kernel.get(Reader.remote().read.remote()) == "hello"


def test_an_environment_of_a_whole_program(cluster, project):
    done = program(
        cluster,
        f"""
        kernel.init(runtime_env={{"working_dir": {str(project)!r}}})

        @kernel.remote(num_cpus=0)
        def read():
            return open("words.txt").read()

        print(kernel.get([read.options(resources={{name: 0.01}}).remote() for name in "abc"]))
        """,
    )
    assert done.communicate(timeout=SECONDS)[0] == "['hello', 'hello', 'hello']\n"


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_output_of_other_nodes_is_shown_here(cluster):
    done = program(
        cluster,
        """
        from kernel_processes.runtime import process_runtime

        process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment
        kernel.init()

        @kernel.remote(num_cpus=0)
        def speak(word):
            print("said", word)
            print("cried", word, file=sys.stderr)

        kernel.get([speak.options(resources={name: 0.01}).remote(name) for name in "abc"])
        kernel.shutdown()
        """,
    )
    out, err = done.communicate(timeout=SECONDS)
    assert all(f"said {name}" in out + err and f"cried {name}" in out + err for name in "abc"), (out, err)


def test_questions_are_answered_for_all_nodes(cluster, eventually):
    @kernel.remote(num_cpus=0)
    class Holder:
        def __init__(self):
            self.ref = kernel.put(numpy.ones(200_000))

        def pid(self):
            return os.getpid()

    holders = [Holder.options(**one).remote() for one in (A, B, C)]
    pids = kernel.get([holder.pid.remote() for holder in holders])
    assert [(row["NodeID"], row["Alive"]) for row in kernel.nodes()] == [(node.id, True) for node in cluster.nodes]
    assert kernel.cluster_resources()["CPU"] == 6
    assert kernel.available_resources()["b"] == pytest.approx(99.99)
    nodes = [node.id for node in cluster.nodes]
    assert [row["node_id"] for row in ask("status")["actors"] if row["state"] == "ALIVE"] == nodes
    # Who has no CPU for two seconds is left out of an answer.
    eventually(lambda: {row["node_id"] for row in ask("status")["workers"]} == set(nodes))
    eventually(lambda: set(pids) <= {row["pid"] for row in ask("memory")["processes"]})
    eventually(lambda: len(ask("memory")["stored"]) == 3)
    eventually(lambda: set(pids) <= {pid for _, pid in ask("stacks")})
    eventually(lambda: set(pids) <= {event["pid"] for event in kernel.timeline()})
    assert f"pid {pids[1]}" in kernel.explain(holders[1])


def test_the_commands_see_every_node(cluster):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "kernel.cli.main", *words, "--address", cluster.head.directory],
            env=environment, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        return done.stdout + done.stderr

    shown = command("status")
    assert all(node.id[:8] in shown for node in cluster.nodes), shown


# -- several drivers ---------------------------------------------------------------------------------------------------

_BUSY = """
    kernel.init(namespace="shared")

    @kernel.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.ref = kernel.put(numpy.ones(300_000))
            self.count = 0
        def add(self):
            self.count += 1
            return self.count, os.getpid()

    @kernel.remote(num_cpus=0, max_retries=0)
    def work(seconds):
        time.sleep(seconds)
        return numpy.ones(300_000)

    counters = [Counter.options(resources={name: 0.01}).remote() for name in "abc"]
    refs = [work.options(resources={name: 0.01}).remote(0) for name in "abc" * 3]
    kernel.get(refs)
    pids = [pid for _, pid in kernel.get([counter.add.remote() for counter in counters])]
    long = [work.options(resources={name: 0.01}).remote(600) for name in "abc"]
    detached = Counter.options(name="stays-" + str(os.getpid()), lifetime="detached", resources={"b": 0.01}).remote()
    pids.append(kernel.get(detached.add.remote())[1])
    print(*pids, flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("end", ["shutdown", "kill"])
@pytest.mark.parametrize("place", [0, 1], ids=["at the head", "at another node"])
def test_a_driver_that_ends_frees_everything_on_all_nodes(cluster, eventually, end, place):
    other = program(cluster, _BUSY, cluster.nodes[place])
    *pids, stays = map(int, other.stdout.readline().split())
    eventually(lambda: len(ask("memory")["stored"]) >= 12)
    if end == "kill":
        other.kill()
    other.communicate("\n", timeout=SECONDS)
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
    detached = kernel.get_actor(f"stays-{other.pid}", namespace="shared")
    assert kernel.get(detached.add.remote(), timeout=SECONDS) == (2, stays)
    eventually(lambda: len(ask("memory")["stored"]) == 1)  # what the detached actor has put
    kernel.kill(detached)
    del detached
    eventually(lambda: not ask("memory")["stored"])
    eventually(lambda: kernel.available_resources()["CPU"] == 6)


def test_drivers_on_different_nodes_share_named_actors(cluster):
    @kernel.remote(**C)
    class Board:
        def __init__(self):
            self.notes = []

        def write(self, note):
            self.notes.append(note)
            return self.notes

    namespace = kernel.get_runtime_context().namespace
    board = Board.options(name="board").remote()
    others = [
        program(
            cluster,
            f"""
            kernel.init(namespace={namespace!r})
            kernel.get(kernel.get_actor("board").write.remote("from {node.id}"))
            """,
            node,
        )
        for node in cluster.nodes
    ]
    assert [other.wait(timeout=SECONDS) for other in others] == [0, 0, 0], others[1].stderr.read()
    assert sorted(kernel.get(board.write.remote("x"))) == sorted(["x", *(f"from {node.id}" for node in cluster.nodes)])
