"""Find the program of a node that runs containers: podman, docker, or bubblewrap."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from kernel_environment_container.description import Image
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import RuntimeEnvError

PODMAN = "podman"
DOCKER = "docker"
BUBBLEWRAP = "bwrap"

KINDS = (PODMAN, DOCKER, BUBBLEWRAP)
"""The programs that can be used, in the order in which they are looked for."""


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """Names the program of a node: its kind, and the command of it with options for all that it is asked to do."""

    kind: str
    command: tuple[str, ...]


def find_program(setting: str, image: Image, variables: Mapping[str, str], title: str) -> ContainerProgram:
    """Return the program that runs containers from `image`.

    `setting` names one, by a command that may have options; with "" it is the first of `KINDS` on the PATH of the
    node's `variables` that can run the image. `title` is what errors call the field. Raises RuntimeEnvError where there
    is none.
    """
    search = variables.get("PATH", os.defpath)
    if setting:
        return _named(setting, image, search, title)
    able = [kind for kind in KINDS if not why_not(kind, image)]
    for kind in able:
        path = shutil.which(kind, path=search)
        if path:
            return ContainerProgram(kind, (path,))
    unable = [f"; {why_not(kind, image)}" for kind in KINDS if kind not in able and shutil.which(kind, path=search)]
    raise RuntimeEnvError(
        f"{title}: this node has no program that can run {image.name} (looked on its PATH for {', '.join(able)}"
        f"{''.join(unable)}); install one of them, or name one that is elsewhere by the option program"
    )


def _named(setting: str, image: Image, search: str, title: str) -> ContainerProgram:
    try:
        program, *options = shlex.split(setting)
    except ValueError:
        raise RuntimeEnvError(f"{title}: the option program is {setting!r}, which is no command") from None
    kind = os.path.basename(program)
    if kind not in KINDS:
        raise RuntimeEnvError(
            f"{title}: the option program is {setting!r}; it must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, by name "
            "or path, and may have options"
        )
    path = shutil.which(os.path.expanduser(program), path=search)
    if not path:
        raise RuntimeEnvError(f"{title}: this node has no {program}, which the option program names; install it")
    if reason := why_not(kind, image):
        raise RuntimeEnvError(f"{title} can't be {image.name}: {reason}")
    return ContainerProgram(kind, (path, *options))


def why_not(kind: str, image: Image) -> str:
    """Return why a kind of program can't run an image, "" if it can."""
    if kind == BUBBLEWRAP and not image.is_directory:
        return "bwrap has no images, and needs the absolute path of a directory with a root file system"
    if kind == DOCKER and image.is_directory:
        return "docker runs images alone, and no directory with a root file system"
    return ""
