"""The loops of node agents and heads never wait for a file, and no turn of them works long, whatever there is to do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.runtime.current import get_runtime
from kernel.testing import Cluster
from kernel.testing.faults import wait_until
from kernel.testing.loop_watch import LoopWatch, watched_loops

SECONDS = 120.0
FILES = 3000


@pytest.fixture
def watch() -> Iterator[LoopWatch]:
    kernel.shutdown()
    with watched_loops() as watch:
        yield watch
        kernel.shutdown()


@pytest.fixture
def many_files(tmp_path: Path) -> str:
    """A directory of many small files, and one that takes several messages."""
    for number in range(FILES):
        folder = tmp_path / "project" / f"part{number // 500}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text(str(number))
    (tmp_path / "project" / "large.bin").write_bytes(os.urandom(6 << 20))
    (tmp_path / "project" / "env_module.py").write_text("VALUE = 1\n")
    return str(tmp_path / "project")


@kernel.remote(max_retries=0)
def count_files() -> int:
    return sum(len(files) for _, _, files in os.walk("."))


@kernel.remote(max_retries=0)
def talk(lines: int) -> int:
    for number in range(lines):
        print("line", number)
    return os.getpid()


@kernel.remote
class Counter:
    def pid(self) -> int:
        return os.getpid()


def use_everything(directory: str, options: dict[str, Any], eventually: Callable[..., Any]) -> None:
    """Do a bit of all that agents and heads have work with."""
    environment = {"working_dir": directory, "py_modules": [os.path.join(directory, "env_module.py")]}
    there = count_files.options(runtime_env=environment, **options)
    assert kernel.get(there.remote(), timeout=SECONDS) == FILES + 2
    pids = kernel.get([talk.options(**options).remote(500) for _ in range(4)], timeout=SECONDS)
    actor = Counter.options(name="counter", **options).remote()
    assert kernel.get(actor.pid.remote(), timeout=SECONDS)
    os.kill(pids[0], signal.SIGKILL)
    shared = kernel.KeyValue("loops")
    shared.put("large", bytes(4 << 20))
    assert shared.keys() == ["large"]
    assert shared.get("large") == bytes(4 << 20)
    for question in ("status", "memory", "workers", "timeline", "nodes", "jobs"):
        assert get_runtime().query(question)
    group = kernel.placement_group([{"CPU": 0.1}])
    assert group.wait(SECONDS)
    kernel.remove_placement_group(group)
    eventually(lambda: pids[0] not in [row["pid"] for row in get_runtime().query("workers")])


def test_the_loop_of_a_session_never_waits_for_files(
    watch: LoopWatch, many_files: str, eventually: Callable[..., Any]
) -> None:
    with kernel.init(num_cpus=2):
        use_everything(many_files, {}, eventually)
    assert watch.loops() == {"agent"}
    assert watch.longest_turn() > 0
    assert watch.findings() == []


def test_lists_of_very_much_hold_up_no_loop(watch: LoopWatch, tmp_path: Path) -> None:
    def run_for_ever() -> None:
        (tmp_path / "runs").touch()
        time.sleep(3600)

    with kernel.init(num_cpus=1):
        endless = kernel.remote(run_for_ever).remote()
        wait_until((tmp_path / "runs").exists, SECONDS, "the only task that runs")
        refs = [count_files.remote() for _ in range(40_000)]
        held = [kernel.put(number) for number in range(20_000)]
        assert len(kernel.list_state("tasks", limit=50_000)) in (0, 40_001), "none where they did not come in time"
        assert get_runtime().query("memory", 0)["processes"]
        kernel.cancel(endless, force=True)
        del refs, held
    assert watch.longest_turn() > 0
    assert watch.findings() == []


def test_the_loops_of_a_cluster_never_wait_for_files(
    watch: LoopWatch, many_files: str, eventually: Callable[..., Any]
) -> None:
    with Cluster(num_cpus=2, head_apart=True, plugins={"metadata_store": "sqlite"}) as cluster:
        node = cluster.add_node(num_cpus=2, resources={"b": 100})
        cluster.connect()
        use_everything(many_files, {"resources": {"b": 1}, "num_cpus": 0.1}, eventually)
        cluster.kill_head()
        assert kernel.get(Counter.remote().pid.remote(), timeout=SECONDS), "another head serves"
        cluster.remove_node(node)
    assert watch.loops() == {"agent", "head"}
    assert watch.findings() == []
