"""Read the used memory, in total and by process, from `/proc` and control groups. Cheap; empty on other systems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kernel_processes.system.processes import session_of
from kernel_spec.memory_guards import MemoryLimit

MACHINE = "this machine's memory"
CONTAINER = "the limit of the control group {}"

_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryReadings:
    """Reads `/proc` and control groups, in tests from another directory."""

    def __init__(self, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        self._groups = list(_groups_of(proc, groups))
        self._total = _meminfo(proc).get("MemTotal", 0)

    def limits(self) -> list[MemoryLimit]:
        """Return every limit that this process is under, the machine's own first."""
        found = []
        machine = _meminfo(self._proc)
        if "MemAvailable" in machine:
            found.append(MemoryLimit(MACHINE, machine["MemTotal"] - machine["MemAvailable"], machine["MemTotal"]))
        for group in self._groups:
            total = _number(group.directory + group.limit)
            if not total or (self._total and total >= self._total):
                continue  # This value means no limit.
            used = _number(group.directory + group.usage)
            statistics = _fields(group.directory + "/memory.stat")
            cache = sum(statistics.get(name, 0) for name in group.cache)  # The system frees it before it kills.
            found.append(MemoryLimit(CONTAINER.format(group.name), max(0, used - cache), total))
        return found

    def kills(self) -> int:
        """Return the number of processes that the system has killed for memory, in this container if it counts them."""
        for group in self._groups:
            count = _fields(group.directory + group.events).get("oom_kill")
            if count is not None:
                return count
        return _fields(f"{self._proc}/vmstat").get("oom_kill", 0)

    def pressure(self) -> float:
        """Return the share of the last ten seconds in which all processes stalled for memory, 0 if unknown."""
        for path in [
            *(group.directory + "/memory.pressure" for group in self._groups),
            f"{self._proc}/pressure/memory",
        ]:
            for line in _read(path).splitlines():
                if line.startswith("full avg10="):
                    return float(line.split()[1].partition("=")[2]) / 100
        return 0.0

    def sizes(self, pids: Iterable[int]) -> dict[int, int]:
        """Return the bytes that each process holds and does not share, with all other processes of its session."""
        found = {pid: self.size(pid) for pid in pids}
        for other in self._processes():
            leader = session_of(other)
            if leader in found and leader != other:
                found[leader] += self.size(other)
        return found

    def size(self, pid: int) -> int:
        """Return the bytes that one process holds and does not share; 0 when it is gone."""
        fields = _read(f"{self._proc}/{pid}/statm").split()
        return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0

    def _processes(self) -> Iterator[int]:
        try:
            names = os.listdir(self._proc)
        except OSError:
            return
        for name in names:
            if name.isdigit():
                yield int(name)


class _ControlGroup:
    """Holds one control group and the names of its files."""

    limit = "/memory.max"
    usage = "/memory.current"
    events = "/memory.events"
    cache: tuple[str, ...] = ("inactive_file", "active_file", "slab_reclaimable")

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.name = name


class _FirstControlGroup(_ControlGroup):
    """Holds a control group of version 1."""

    limit = "/memory.limit_in_bytes"
    usage = "/memory.usage_in_bytes"
    events = "/memory.oom_control"
    cache = ("total_inactive_file", "total_active_file")


def _groups_of(proc: str, root: str) -> Iterator[_ControlGroup]:
    """Return the control groups that this process is in, innermost first.

    In a container the path may be that on its host, where it can't be seen: then the root is the container's own.
    """
    for line in _read(f"{proc}/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        second = number == "0" and not controllers
        if not second and "memory" not in controllers.split(","):
            continue
        kind, top = (_ControlGroup, root) if second else (_FirstControlGroup, f"{root}/memory")
        names = [name for name in path.split("/") if name not in ("", ".")]
        for count in range(len(names), -1, -1):
            part = "/".join(names[:count])
            directory = os.path.normpath(os.path.join(top, part))
            if os.path.exists(directory + kind.limit):
                yield kind(directory, "/" + part)


def _meminfo(proc: str) -> dict[str, int]:
    """Return the machine's figures in bytes."""
    return {name.rstrip(":"): kibibytes * 1024 for name, kibibytes in _fields(f"{proc}/meminfo").items()}


def _fields(path: str) -> dict[str, int]:
    """Return a file of names and whole numbers; nothing when it is not there."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _number(path: str) -> int:
    """Return a file's one whole number; 0 for a word such as `max`, or when it is not there."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else 0


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
