"""A step, and which of a machine's steps are left to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_launcher.plan import FilePlan
from kernel_spec.dataclass import dataclass

OUTSIDE, INSIDE = "outside", "inside"
"""Where a command runs: on the machine itself, or in its container, if it has one."""
SETUP, START = "setup", "start"
"""What a step is for: `kernel up --restart-only` does those of `START` alone, `--no-restart` the others."""


@dataclass(frozen=True, slots=True)
class MachineStep:
    """Something to do on a machine: run a command, or copy files.

    `id` is a file name. `key` changes with everything that the step depends on, so a step whose key is recorded on the
    machine is done. `purpose` is `SETUP` or `START`. A step that is `repeated` is done each time.
    """

    id: str
    title: str
    key: str
    command: str = ""
    place: str = INSIDE
    files: FilePlan | None = None
    purpose: str = SETUP
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much `up` is to do: `restart` nodes that run, and `setup` machines first."""

    restart: bool = True
    setup: bool = True


def digest(*parts: Any) -> str:
    """Return a key of 16 digits for values that JSON has."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def pending(steps: Sequence[MachineStep], done: Mapping[str, str], running: bool, wanted: Wanted) -> list[MachineStep]:
    """Return the steps that are left, in order: `done` has the keys of those that were done, `running`: its node runs.

    A node that does not run is started, whatever is wanted.
    """
    left = []
    for step in steps:
        if step.purpose == START:
            if wanted.restart or not running:
                left.append(step)
        elif wanted.setup and (step.repeated or done.get(step.id) != step.key):
            left.append(step)
    return left
