"""Try the command that runs an interpreter, and say how workers run it.

The interpreter's own packages come first, but for cloudpickle: a function that one version of it has pickled, another
may not read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

from kernel_environment_interpreter.command import TITLE
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError

OF_THE_NODE = ("cloudpickle",)
"""Packages that are always the node's."""

LAST_LINES = 30
"""The number of the last lines of what the command wrote that an error shows."""

ANSWER = "kernel-interpreter:"
"""How the line begins in which an interpreter describes itself; a command may write other lines before."""

QUESTION = f"""
import json, sys, sysconfig
paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
print({ANSWER!r} + json.dumps(["{{}}.{{}}".format(*sys.version_info[:2]), sys.implementation.name, paths]))
"""


def worker_start(command: Sequence[str], directory: str) -> WorkerStart:
    """Return what workers that are run by `command` are given; `directory` is for files of our own.

    Raises RuntimeEnvError for a command that fails, and for an interpreter of another version than the node's.
    """
    version, implementation, packages = _ask(command)
    here = ("{}.{}".format(*sys.version_info[:2]), sys.implementation.name)
    if (version, implementation) != here:
        raise RuntimeEnvError(
            f"{TITLE}: `{shlex.join(command)}` runs {implementation} {version}, and this node runs {here[1]} "
            f"{here[0]}; the two must be of one version: name an interpreter of Python {here[0]}"
        )
    own = [path for path in packages if path not in sys.path]
    first = [_links(os.path.join(directory, "first"))] if own else []
    return WorkerStart(paths=(*first, *own), python=_program(command, os.path.join(directory, "python")))


def _ask(command: Sequence[str]) -> tuple[str, str, list[str]]:
    """Run the command, and return the version of its interpreter, its implementation, and where its packages are."""
    surroundings = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            [*command, "-c", QUESTION],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=surroundings,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise RuntimeEnvError(f"{TITLE}: `{shlex.join(command)}` can't be run on this node: {error}") from error
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    print(*lines, sep="\n", flush=True)
    answers = [line.removeprefix(ANSWER) for line in lines if line.startswith(ANSWER)]
    if done.returncode or not answers:
        last = "".join(f"\n  {line}" for line in lines[-LAST_LINES:]) or " nothing"
        how = f"ended with exit code {done.returncode}" if done.returncode else "has run no interpreter"
        raise RuntimeEnvError(
            f"{TITLE}: `{shlex.join(command)}`, with the arguments of an interpreter, {how}, and wrote at last:{last}"
        )
    version, implementation, packages = json.loads(answers[-1])
    return version, implementation, packages


def _links(directory: str) -> str:
    """Make a folder of packages that leads to those of the node, and return its path."""
    os.mkdir(directory)
    for name in OF_THE_NODE:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            os.symlink(found.submodule_search_locations[0], os.path.join(directory, name))
    return directory


def _program(command: Sequence[str], path: str) -> str:
    """Return a program that takes an interpreter's arguments: the command itself, or a file at `path` that runs it."""
    if len(command) == 1:
        return command[0]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    os.chmod(path, 0o700)
    return path
