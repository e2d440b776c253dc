"""What is read of memory: limits of machines and of both versions of control groups, kills, pressure, sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_processes.node.memory_readings import MACHINE, MemoryReadings
from kernel_spec.memory_guards import MemoryLimit

PAGE = os.sysconf("SC_PAGE_SIZE")
MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\nHugePages_Total:       0\n"
UNLIMITED = "9223372036854771712\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def readings(tmp_path: Path):
    """Return a function that reads a machine made of files below `proc/` and `groups/`."""

    def make(**files: str) -> MemoryReadings:
        write(tmp_path, {"proc/meminfo": MEMINFO})
        write(tmp_path, {name.replace("__", "/"): text for name, text in files.items()})
        return MemoryReadings(str(tmp_path / "proc"), str(tmp_path / "groups"))

    make.root = tmp_path  # type: ignore[attr-defined]
    return make


def test_a_machine_without_control_groups(readings) -> None:
    assert readings().limits() == [MemoryLimit(MACHINE, 600 * 1024, 1000 * 1024)]


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    nothing = MemoryReadings(str(tmp_path / "proc"), str(tmp_path / "groups"))
    assert (nothing.limits(), nothing.kills(), nothing.pressure(), nothing.sizes([1])) == ([], 0, 0.0, {1: 0})


def second_version(root: Path) -> None:
    write(
        root,
        {
            "proc/self/cgroup": "0::/jobs/mine\n",
            "groups/jobs/memory.max": "500000\n",
            "groups/jobs/memory.current": "400000\n",
            "groups/jobs/memory.stat": "anon 1\ninactive_file 30000\nactive_file 20000\nslab_reclaimable 10000\n",
            "groups/jobs/memory.events": "low 0\noom 3\noom_kill 2\n",
            "groups/jobs/mine/memory.max": "max\n",
            "groups/jobs/mine/memory.current": "390000\n",
            "groups/jobs/mine/memory.events": "low 0\noom 1\noom_kill 1\n",
            "groups/jobs/mine/memory.pressure": "some avg10=9.00 avg60=0 avg300=0 total=1\nfull avg10=2.50 avg60=0\n",
        },
    )


def test_control_groups_of_the_second_version(readings) -> None:
    second_version(readings.root)
    found = readings()
    assert found.limits()[1:] == [MemoryLimit("the limit of the control group /jobs", 340000, 500000)]
    assert found.kills() == 1
    assert found.pressure() == pytest.approx(0.025)


def test_a_limit_that_is_set_while_we_look(readings) -> None:
    second_version(readings.root)
    found = readings()
    write(readings.root, {"groups/jobs/mine/memory.max": "450000\n"})
    assert found.limits()[1] == MemoryLimit("the limit of the control group /jobs/mine", 390000, 450000)


def test_a_container_that_sees_its_own_group_as_the_root(readings) -> None:
    write(
        readings.root,
        {
            "proc/self/cgroup": "0::/docker/0123456789ab\n",
            "groups/memory.max": "500000\n",
            "groups/memory.current": "100000\n",
        },
    )
    assert readings().limits()[1:] == [MemoryLimit("the limit of the control group /", 100000, 500000)]


def test_control_groups_of_the_first_version(readings) -> None:
    write(
        readings.root,
        {
            "proc/self/cgroup": "5:cpu:/a\n4:cpuset,memory:/a/b\n0::/\n",
            "groups/memory/memory.limit_in_bytes": UNLIMITED,
            "groups/memory/a/memory.limit_in_bytes": "800000\n",
            "groups/memory/a/memory.usage_in_bytes": "700000\n",
            "groups/memory/a/memory.stat": "inactive_file 1\ntotal_inactive_file 50000\ntotal_active_file 50000\n",
            "groups/memory/a/b/memory.limit_in_bytes": UNLIMITED,
            "groups/memory/a/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
        },
    )
    found = readings()
    assert found.limits()[1:] == [MemoryLimit("the limit of the control group /a", 600000, 800000)]
    assert found.kills() == 4


def test_kills_and_pressure_of_the_whole_machine(readings) -> None:
    write(
        readings.root,
        {
            "proc/vmstat": "pgfault 5\noom_kill 7\n",
            "proc/pressure/memory": "some avg10=50.0\nfull avg10=40.0 avg60=1\n",
        },
    )
    assert readings().kills() == 7
    assert readings().pressure() == pytest.approx(0.4)


def test_what_a_process_does_not_share(readings) -> None:
    write(readings.root, {"proc/77/statm": "9000 500 200 1 0 300 0\n"})
    assert readings().size(77) == 300 * PAGE
    assert readings().size(78) == 0


def test_what_a_process_started_belongs_to_it() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = 'kept = bytearray(b\"x\") * (40 << 20); print(flush=True); input()'\n"
        "with subprocess.Popen([sys.executable, '-c', child], stdin=0, stdout=1): pass\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        found = MemoryReadings()
        alone, together = found.size(leader.pid), found.sizes([leader.pid])[leader.pid]
        leader.communicate(b"\n")
    assert together - alone > 40 << 20
