"""The leak check: what a block of code left behind on this machine.

    with no_leaks(root=tmp):
        kernel.init(temp_dir=tmp)
        ...
        kernel.shutdown()

Looks for processes (also daemonised ones: they inherit a mark in their environment), open descriptors and threads
of this process, shared memory (named, or mapped here without a name), and whatever is in the root directory.
"""

from __future__ import annotations

import gc
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from kernel_processes.system.processes import is_alive
from kernel_spec.dataclass import dataclass
from kernel_testing.faults import PATIENCE_SECONDS

MARK = "KERNEL_TESTING_MARK"
"""The environment variable by which processes are found that were started inside a `no_leaks` block."""


@dataclass(slots=True)
class Traces:
    """What can be left behind, by kind; each item says what it is."""

    processes: set[str] = field(default_factory=set)
    descriptors: set[str] = field(default_factory=set)
    threads: set[str] = field(default_factory=set)
    shared_memory: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def beyond(self, other: Traces) -> list[str]:
        """Return what is here and not in `other`, in words."""
        return [
            f"{kind.replace('_', ' ')}: {item}"
            for kind in self.__dataclass_fields__
            for item in sorted(getattr(self, kind) - getattr(other, kind))
        ]


def take_traces(mark: str, root: str | None = None) -> Traces:
    """Return what there is now: processes that carry `mark`, and what belongs to this process; files under `root`."""
    return Traces(
        {f"pid {pid}: {_command_line(pid)}" for pid in marked_processes(mark)},
        _open_descriptors(),
        {f"{t.name} ({t.ident})" for t in threading.enumerate() if not t.name.startswith("pytest_timeout")},
        _shared_memory(),
        _files(root) if root is not None else set(),
    )


@contextmanager
def no_leaks(root: str | None = None, seconds: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Fail with a list of what the block left behind and is still there after `seconds`; give the block its mark."""
    mark = secrets.token_hex(8)
    before = take_traces(mark, root)
    previous = os.environ.get(MARK)
    os.environ[MARK] = mark
    try:
        yield mark
    finally:
        if previous is None:
            del os.environ[MARK]
        else:
            os.environ[MARK] = previous
    left = _what_is_left(mark, root, before, seconds)
    assert not left, f"{len(left)} things were left behind {seconds:.0f} s later:\n  " + "\n  ".join(left)


def marked_processes(mark: str) -> list[int]:
    """Return the living processes, but for this one, whose environment carries `mark`."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue  # it is gone, or another user's
        if wanted in variables and is_alive(int(name)):
            found.append(int(name))
    return found


def count_descriptors() -> int:
    """Return how many descriptors this process has open, without those that only garbage still holds."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _what_is_left(mark: str, root: str | None, before: Traces, seconds: float) -> list[str]:
    deadline = time.monotonic() + seconds
    while True:
        gc.collect()
        left = take_traces(mark, root).beyond(before)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as title, open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"{title.read().strip()}: {file.read().replace(bytes(1), b' ').decode(errors='replace')[:200]}"
    except OSError:
        return "gone"


def _open_descriptors() -> set[str]:
    """Return descriptors with what they are of; those of an inode without a name are only numbered by kind.

    A fork lets gRPC, where it is in use, open its event descriptor anew, with another number.
    """
    found: set[str] = set()
    unnamed: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the one that listed the folder
        if target.startswith("anon_inode:"):
            unnamed[target] += 1
            name = f"{unnamed[target]}."
        found.add(f"{name} -> {target}")
    return found


def _shared_memory() -> set[str]:
    found = set()
    if os.path.isdir("/dev/shm"):
        found = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "kernel" in name}
    with open("/proc/self/maps") as file:
        found |= {line.split(maxsplit=5)[5].strip() for line in file if "memfd:kernel" in line or "(deleted)" in line}
    return found


def _files(root: str) -> set[str]:
    return {os.path.join(folder, name) for folder, names, files in os.walk(root) for name in [*names, *files]}
