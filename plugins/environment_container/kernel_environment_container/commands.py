"""Compose the commands by which a program of the node runs a container."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_environment_container.description import Image
from kernel_environment_container.programs import BUBBLEWRAP, PODMAN, ContainerProgram

LABEL = "kernel.client"
"""The label of a container; its value is the id of the process that runs it and when that was started."""

BARE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
"""The variables in a root file system, which says nothing of variables."""


def container_start(
    program: ContainerProgram, image: Image, options: Sequence[str], shared: Sequence[str], entry: str, user: str
) -> dict[str, Any]:
    """Return what `launch` needs to run `entry` (a path in a directory of `shared`) in a container, as plain values.

    `before` and `after` are the command in front of and behind what is mounted, each by the parts `mount`: there
    `{source}` stands for a directory of the node and `{target}` for its place in the container, and in `before`
    `{client}` for the process that runs the command. `options` are those of the node, those of the image come behind.
    `shared` are directories of the node that have the same path in the container. `user` is "UID:GID".
    """
    compose = _bubblewrap if program.kind == BUBBLEWRAP else _engine
    return {**compose(program, image, [*options, *image.options], shared, entry, user), "shared": list(shared)}


def _engine(
    program: ContainerProgram, image: Image, options: Sequence[str], shared: Sequence[str], entry: str, user: str
) -> dict[str, Any]:
    """Compose a command of podman or docker, which know most options by the same names."""
    before = [
        *program.command, "run", "--rm", "--interactive",
        "--network", "host", "--pid", "host", "--ipc", "host",  # a worker reaches its node by all three
        "--log-driver", "none",  # what it writes goes to the worker's log
        "--security-opt", "label=disable",  # else SELinux keeps it from the session's directory
        "--user", user,
        "--label", f"{LABEL}={{client}}",
        "--workdir", "/",
    ]  # fmt: skip
    if program.kind == PODMAN and user.partition(":")[0] != "0":
        before += ["--userns", "keep-id"]
    for path in shared:
        before += ["--volume", f"{path}:{path}"]
    rootfs = ["--rootfs"] if image.is_directory else []
    return {
        "before": before,
        "mount": ["--volume", "{source}:{target}:ro"],
        "after": [*options, "--entrypoint", image.python, *rootfs, image.name, entry],
    }


def _bubblewrap(
    program: ContainerProgram, image: Image, options: Sequence[str], shared: Sequence[str], entry: str, user: str
) -> dict[str, Any]:
    before = [
        *program.command, "--bind", image.name, "/", "--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev",
        "--ro-bind-try", "/sys", "/sys", "--tmpfs", "/tmp", "--chdir", "/", "--clearenv",
    ]  # fmt: skip
    for name in ("/etc/resolv.conf", "/etc/hosts"):  # by which names are found in the network that is shared
        if os.path.isfile(image.name + name) and os.path.exists(name):
            before += ["--ro-bind", os.path.realpath(name), name]
    for name, text in BARE.items():
        before += ["--setenv", name, text]
    for path in shared:
        before += ["--bind", path, path]
    return {
        "before": before,
        "mount": ["--ro-bind", "{source}", "{target}"],
        "after": [*options, "--", image.python, entry],
    }


def description_command(start: Mapping[str, Any], process: int, birth: int) -> list[str]:
    """Return the command that says what is in the container, of the process that runs it and when it was started."""
    before = [part.replace("{client}", f"{process}-{birth}") for part in start["before"]]
    return [*before, *start["after"], "describe", str(process), str(birth)]
