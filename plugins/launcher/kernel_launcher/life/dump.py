"""Collect the logs of the machines of a cluster."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from kernel_launcher.files.trees import read_tar
from kernel_launcher.life.machine_link import MachineLink
from kernel_launcher.life.up import head_link, known_workers, opened
from kernel_launcher.plan import WORKER, ClusterPlan
from kernel_launcher.steps.machine import session_directory
from kernel_spec.errors import KernelError


def dump_logs(plan: ClusterPlan, state: Path, output: Path, on_line: Callable[[str], None]) -> tuple[int, list[str]]:
    """Copy the logs of the head, and of workers that the launcher has made, below `output`.

    Return how many files there are, and what went wrong on which machine. Raises KernelError where the head can't be
    reached.
    """
    count, failures = 0, []
    with contextlib.closing(head_link(plan, state, on_line)) as head:
        count += _logs_of(head, output / "head")
        for entry in known_workers(head):
            try:
                with opened(plan, WORKER, entry, state, on_line) as worker:
                    count += _logs_of(worker, output / re.sub(r"[^A-Za-z0-9_.-]", "_", entry))
            except KernelError as error:
                failures.append(str(error))
    return count, failures


def _logs_of(machine: MachineLink, output: Path) -> int:
    directory = shlex.quote(session_directory(machine.plan, machine.machine.home))
    find = "find . -type f -path '*/logs/*' 2>/dev/null"
    with machine.receive(f"cd {directory} 2>/dev/null || cd /var/empty; {find} | tar -cf - -T -") as pipe:
        return read_tar(pipe, output)
