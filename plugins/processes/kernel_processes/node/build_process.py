"""Build one part of a runtime environment in a process, which ends when it is done, or when its agent ends."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Mapping
from typing import Any

from kernel.plugin_faults import told
from kernel_processes.system.child_program import begin, report
from kernel_spec.dataclass import dataclass
from kernel_spec.environments import BuildPlace, EnvironmentBuilder
from kernel_spec.errors import RuntimeEnvError


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """An order to build a part.

    `directory` is the session's, `place` the directory to build in, `packages` where the packages are that it needs, by
    their names. `label` is what errors call the builder. For
    `shared` see `BuildPlace`.
    """

    directory: str
    builder: EnvironmentBuilder
    label: str
    prepared: Any
    place: str
    packages: Mapping[str, str]
    shared: tuple[str, ...]


def main() -> int:
    """Build what the agent orders, and report the start of its workers and the bytes it takes, or why it failed."""
    ready, order, agent = begin("kernel: environment")
    threading.Thread(target=_end_with, args=(agent,), daemon=True).start()
    report(ready, build(order))
    return 0


def build(order: BuildOrder) -> Any:
    """Return the start of workers and the built bytes, or RuntimeEnvError, after which no file is left."""
    shutil.rmtree(order.place, ignore_errors=True)
    try:
        os.makedirs(order.place, mode=0o700)
        place = BuildPlace(order.place, order.packages.__getitem__, order.shared)
        start = order.builder.build(order.prepared, place)
        return start, bytes_in(order.place)
    except RuntimeEnvError as error:
        failure = error
    except Exception as error:  # a plugin may raise anything
        failure = RuntimeEnvError(told(f"{order.label}: its build()", error))
    shutil.rmtree(order.place, ignore_errors=True)
    return failure


def bytes_in(directory: str) -> int:
    """Return the bytes that the files of a directory take on the disk; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
    return total


def _end_with(agent: int) -> None:
    """Wait for the end of the agent, and end this process and those that it has started."""
    os.read(agent, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)
