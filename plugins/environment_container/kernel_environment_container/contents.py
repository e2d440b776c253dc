"""See what a container of an image has, by running one, and whether a worker can run in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

from kernel_environment_container.description import Image
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.version import __version__

LAST_LINES = 30
"""The number of the last lines of what a program wrote that an error shows."""


@dataclass(frozen=True, slots=True)
class ContainerContents:
    """Describes a container: its Python (such as 3.12), folders of packages, variables, and kernel, "" without it.

    `sees` is whether the node's processes are seen in it.
    """

    python: str
    packages: Sequence[str]
    variables: Mapping[str, str]
    kernel: str
    sees: bool


def look(title: str, image: Image, command: Sequence[str]) -> ContainerContents:
    """Run `command`, which describes a container, and return what it says. Raises RuntimeEnvError where it fails.

    What is written goes to standard error as well: a program that fetches an image says so there.
    """
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    written = process.stderr.decode(errors="replace")
    sys.stderr.write(written)
    lines = process.stdout.decode(errors="replace").strip().splitlines()
    if process.returncode or not lines:
        last = "".join(f"\n  {line}" for line in [*lines, *written.strip().splitlines()][-LAST_LINES:])
        raise RuntimeEnvError(
            f"{title}: no container of {image.name} can be run; `{shlex.join(command)}` ended with exit code "
            f"{process.returncode}, and wrote at last:{last or ' nothing'}"
        )
    return ContainerContents(**json.loads(lines[-1]))


def check_contents(title: str, image: Image, found: ContainerContents) -> None:
    """Raise RuntimeEnvError if no worker of this node can run in a container with this."""
    node = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found.python != node:
        raise RuntimeEnvError(
            f"{title}: {image.name} has Python {found.python} as {image.python!r}, and this node runs Python {node}; "
            "the two must be of one version: take another image, or another python of it"
        )
    if found.kernel not in ("", __version__):
        raise RuntimeEnvError(
            f"{title}: {image.name} has kernel {found.kernel}, and this node runs kernel {__version__}; install that "
            "one into the image, or none: workers then use the node's"
        )
    if not found.sees:
        raise RuntimeEnvError(
            f"{title}: containers of {image.name} do not see the node's processes; leave options out that give them "
            "processes of their own (--pid, --unshare-pid), and use a program that runs them on this machine"
        )


def birth_of(process: int) -> int | None:
    """Return when a process was started, in clock ticks since the system was booted; None without it."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except OSError:
        return None


def own_user() -> str:
    """Return the user and the group of this process, as "UID:GID"."""
    return f"{os.getuid()}:{os.getgid()}"
