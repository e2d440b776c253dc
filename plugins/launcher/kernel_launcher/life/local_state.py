"""What this machine keeps of a cluster: the pinned host keys, and a lock, so that one command changes it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kernel_launcher.errors import MachineError
from kernel_launcher.plan import ClusterPlan

VARIABLE = "KERNEL_LAUNCHER_DIRECTORY"
"""The environment variable that says where local state is kept (default: ~/.kernel/launcher)."""


def state_directory(plan: ClusterPlan) -> Path:
    """Return the directory of a cluster. Clusters of one name that are in different places have different ones."""
    root = os.environ.get(VARIABLE) or os.path.expanduser("~/.kernel/launcher")
    directory = Path(root).absolute() / plan.key
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def changing(plan: ClusterPlan) -> Iterator[Path]:
    """Hold the right to change a cluster. Raises MachineError while another command of this machine has it."""
    directory = state_directory(plan)
    with open(directory / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError(
                f"another command is changing the cluster {plan.name} just now; wait until it has ended"
            ) from None
        yield directory
