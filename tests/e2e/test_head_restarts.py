"""A head that is a process of its own dies, another takes its place, and nothing else notices but by waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import kill, wait_until
from kernel_processes.system.processes import children_of
from kernel_spec.errors import SessionEndedError

PLUGINS = {"metadata_store": "sqlite"}
SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes, the far one with all the room for what the tests do."""
    kernel.shutdown()
    with Cluster(num_cpus=1, head_apart=True, plugins=PLUGINS, death_seconds=30.0) as cluster:
        cluster.add_node(num_cpus=4, resources={"far": 8})
        cluster.connect()
        yield cluster


@pytest.fixture
def restart(cluster: Cluster) -> Any:
    """Kill the head, and return when another is there (which may not have heard from everybody yet)."""

    def restart() -> int:
        old = cluster.kill_head()

        def another() -> bool:
            try:
                return cluster.head_process() != old
            except AssertionError:
                return False

        wait_until(another, SECONDS, "another head")
        return cluster.head_process()

    return restart


@kernel.remote(num_cpus=0, resources={"far": 1})
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def up(self) -> tuple[int, int]:
        self.count += 1
        return self.count, os.getpid()

    def end(self) -> None:
        os._exit(1)


@kernel.remote(num_cpus=0, resources={"far": 1})
def far(value: Any) -> Any:
    return value


@kernel.remote(num_cpus=0, resources={"far": 1}, max_retries=0)
def note(path: str) -> str:
    """Note that it runs, and go on when there is a file "go" beside the note."""
    with open(path, "a") as file:
        file.write("ran\n")
    wait_until(Path(path).with_name("go").exists, 600, "the word to go")
    return path


def test_actors_and_tasks_go_on_and_nothing_runs_twice(restart: Any, tmp_path: Path) -> None:
    counter = Counter.remote()
    before, pid = kernel.get(counter.up.remote(), timeout=SECONDS)
    running = note.remote(str(tmp_path / "notes"))
    wait_until((tmp_path / "notes").exists, SECONDS, "the task to begin")
    restart()
    assert kernel.get(counter.up.remote(), timeout=SECONDS) == (before + 1, pid)
    (tmp_path / "go").touch()
    assert kernel.get(running, timeout=SECONDS) == str(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "ran\n"
    assert kernel.get(far.remote(1), timeout=SECONDS) == 1
    assert [row["Alive"] for row in kernel.nodes()] == [True, True]


def test_what_is_asked_while_there_is_no_head_waits(cluster: Cluster) -> None:
    cluster.kill_head()
    refs = [far.remote(number) for number in range(20)]
    actor = Counter.remote()
    named = Counter.options(name="made meanwhile").remote()
    assert kernel.get(refs, timeout=SECONDS) == list(range(20))
    assert kernel.get(actor.up.remote(), timeout=SECONDS)[0] == 1
    assert kernel.get(kernel.get_actor("made meanwhile").up.remote(), timeout=SECONDS)[0] == 1
    del named


def test_names_and_detached_actors_are_there(restart: Any) -> None:
    detached = Counter.options(name="stays", lifetime="detached").remote()
    kernel.get(detached.up.remote(), timeout=SECONDS)
    restart()
    again = kernel.get_actor("stays")
    assert kernel.get(again.up.remote(), timeout=SECONDS)[0] == 2
    with pytest.raises(ValueError, match="stays"):
        Counter.options(name="stays").remote()
    kernel.kill(again)
    wait_until(lambda: not any(row["name"] == "stays" for row in kernel.list_named_actors(True)), SECONDS, "its end")


def test_an_actor_restarts_under_the_next_head(restart: Any) -> None:
    counter = Counter.options(max_restarts=1, max_task_retries=1).remote()
    _, pid = kernel.get(counter.up.remote(), timeout=SECONDS)
    restart()
    counter.end.options(max_task_retries=0).remote()
    count, other = kernel.get(counter.up.remote(), timeout=SECONDS)
    assert (count, other != pid) == (1, True)


def test_resources_are_counted_once_and_given_back(restart: Any) -> None:
    holders = [Counter.remote() for _ in range(3)]
    kernel.get([holder.up.remote() for holder in holders], timeout=SECONDS)
    restart()
    wait_until(lambda: kernel.available_resources().get("far") == 5, SECONDS, "three of eight to be held")
    del holders
    wait_until(lambda: kernel.available_resources().get("far") == 8, SECONDS, "all eight to be free")


def test_heads_that_die_one_after_another(restart: Any) -> None:
    counter = Counter.remote()
    for expected in range(1, 4):
        assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == expected
        restart()
    assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == 4


def test_heads_that_are_killed_while_they_start_are_replaced(cluster: Cluster) -> None:
    counter = Counter.remote()
    assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == 1
    known, deadline = {cluster.kill_head()}, time.monotonic() + SECONDS
    while len(known) < 7 and time.monotonic() < deadline:
        for pid in set(heads_of(cluster.head.agent)) - known:
            kill(pid)  # most likely before it serves
            known.add(pid)
    assert len(known) == 7
    assert kernel.get(far.remote("asked of the next head"), timeout=SECONDS) == "asked of the next head"
    assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == 2


def heads_of(agent: int) -> list[int]:
    """Return the agent's children that are heads, or about to be."""
    found = []
    for pid in children_of(agent):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"kernel_processes.daemons.head_main" in command or b"kernel: head" in command:
                found.append(pid)
    return found


def test_a_program_that_ends_while_there_is_no_head_leaves_nothing(cluster: Cluster) -> None:
    script = f"""
import kernel
kernel.init(address={cluster.head.directory!r})
@kernel.remote(num_cpus=0, resources={{"far": 1}})
class Held:
    def there(self): return 1
held = Held.remote()
assert kernel.get(held.there.remote(), timeout={SECONDS}) == 1
print("ready", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        wait_until(lambda: kernel.available_resources().get("far") == 7, SECONDS, "one of eight to be held")
        cluster.kill_head()
        program.kill()
    wait_until(lambda: kernel.available_resources().get("far") == 8, SECONDS, "all eight to be free")


def test_a_node_that_is_lost_while_there_is_no_head_is_mourned_by_the_next() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, head_apart=True, plugins=PLUGINS) as other:
        other.add_node(num_cpus=1)
        node = other.add_node(num_cpus=1, resources={"doomed": 1})
        other.connect()
        actor = Counter.options(resources={"doomed": 1}).remote()
        kernel.get(actor.up.remote(), timeout=SECONDS)
        other.kill_head()
        other.kill_node(node)
        with pytest.raises(kernel.exceptions.ActorDiedError):
            kernel.get(actor.up.remote(), timeout=SECONDS)
        wait_until(lambda: [row["Alive"] for row in kernel.nodes()].count(True) == 2, SECONDS, "two living nodes")


def test_a_head_that_keeps_nothing_ends_the_session_when_it_dies() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, head_apart=True, plugins={"metadata_store": "memory"}) as other:
        other.connect()
        other.kill_head()
        with pytest.raises(SessionEndedError, match="the head died .signal 9., and its metadata store is not durable"):
            kernel.get(Counter.remote().up.remote(), timeout=SECONDS)


def test_a_head_is_started_again_though_no_node_waits_for_it() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, resources={"far": 4}, head_apart=True, plugins=PLUGINS, head_away_seconds=0.0) as other:
        other.connect()
        counter = Counter.remote()
        assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == 1
        other.kill_head()
        assert kernel.get(far.remote("asked of the next head"), timeout=SECONDS) == "asked of the next head"
        assert kernel.get(counter.up.remote(), timeout=SECONDS)[0] == 2


def test_nodes_look_for_a_lost_head_as_long_as_they_were_told(tmp_path: Path) -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, head_apart=True, plugins=PLUGINS, head_away_seconds=1.0) as other:
        node = other.add_node(num_cpus=1, resources={"far": 1})
        kernel.init(address=node.directory)
        endless = note.remote(str(tmp_path / "notes"))
        wait_until((tmp_path / "notes").exists, SECONDS, "the task to begin")
        lost = time.monotonic()
        other.kill_node(other.head)
        with pytest.raises(SessionEndedError, match="the head is gone: .*, for 1 s"):
            kernel.get(endless, timeout=SECONDS)
        assert time.monotonic() - lost > 0.9
        node.process.wait(timeout=SECONDS)
