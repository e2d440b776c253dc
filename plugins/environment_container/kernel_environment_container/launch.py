"""Run on the node in a worker's place, as its interpreter: become the program that runs the container.

`launch.py PLACE ARGUMENT...` is run with the arguments, the variables and the open files of an interpreter.
`start.json` in the directory PLACE says how the container is run (see `commands`). All that the interpreter needs goes
into the container by its standard input: so no value of a variable is seen in a list of processes, and any program that
can run containers will do.

It imports nothing but Python's own library, and starts once for each worker.
"""

from __future__ import annotations

import json
import os
import pickle
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def main() -> None:
    """Become the program that runs the container."""
    place, *arguments = sys.argv[1:]
    with open(os.path.join(place, "start.json"), encoding="utf-8") as file:
        start = json.load(file)
    mounts, paths = import_paths(os.environ.get("PYTHONPATH", ""), start["shared"], os.path.join(place, "paths"))
    variables = variables_of(os.environ, start["node_variables"])
    variables["PYTHONPATH"] = os.pathsep.join([*start["packages"], *paths])
    message = {"arguments": arguments, "variables": variables, "files": inherited_files()}
    command = command_of(start, os.getpid(), mounts)
    for _, target in mounts:
        os.makedirs(target, exist_ok=True)
    os.dup2(file_of(pickle.dumps(message)), 0)
    os.execvpe(command[0], command, node_variables(os.environ, start["node_variables"]))


def import_paths(text: str, shared: Sequence[str], below: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what is to be mounted (each from, to), and the import path in the container, for PYTHONPATH `text`.

    Folders in those that are `shared` have the same path there, all others one of their own, in `below`: there may be
    other files at their path in the image. What is no folder here is left out.
    """
    mounts: list[tuple[str, str]] = []
    paths: list[str] = []
    for path in dict.fromkeys(filter(os.path.isdir, text.split(os.pathsep) if text else ())):
        if any(os.path.join(path, "").startswith(os.path.join(folder, "")) for folder in shared):
            paths.append(path)
        else:
            target = os.path.join(below, str(len(mounts)))
            mounts.append((os.path.abspath(path), target))
            paths.append(target)
    return mounts, paths


def variables_of(given: Mapping[str, str], replaced: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of the worker; an empty one of those that were `replaced` means that it has none."""
    return {name: text for name, text in given.items() if text or name not in replaced}


def node_variables(given: Mapping[str, str], replaced: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables of the program that runs the container: those of the node are put back for `replaced`."""
    found = {name: text for name, text in given.items() if name not in replaced}
    return {**found, **{name: text for name, text in replaced.items() if text is not None}}


def command_of(start: Mapping[str, Any], process: int, mounts: Sequence[tuple[str, str]]) -> list[str]:
    """Return the command of the container; `process` is this one's id."""
    birth = birth_of(process)
    mounted = [part.format(source=source, target=target) for source, target in mounts for part in start["mount"]]
    parts = [part.replace("{client}", f"{process}-{birth}") for part in start["before"]]
    return [*parts, *mounted, *start["after"], "run", str(process), str(birth)]


def inherited_files() -> dict[int, bytes]:
    """Return the content of each file that the interpreter was to inherit, by its descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number > 2 and os.get_inheritable(number) and stat.S_ISREG(os.fstat(number).st_mode):
                found[number] = os.pread(number, os.fstat(number).st_size, 0)
        except OSError:  # It was that of the listing.
            continue
    return found


def file_of(content: bytes) -> int:
    """Return the descriptor of a file in memory, to be read from its beginning."""
    descriptor = os.memfd_create("kernel-container")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def birth_of(process: int) -> int:
    """Return when a process was started, in clock ticks since the system was booted."""
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


if __name__ == "__main__":
    main()
