"""The builder of the fields `container` and `image_uri`, which the kernel calls: see `kernel_spec.environments`."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_environment_container import description
from kernel_spec.environments import BuildPlace, Program, WorkerStart

OF_THE_NODE = ("CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "TMPDIR", "VIRTUAL_ENV")
"""Variables that name files of the node: a container without them has none."""

FIRST = ("cloudpickle",)
"""Packages that must be the node's: functions that one version of cloudpickle has pickled, another may not read."""


class ContainerEnvironment:
    """Runs workers in containers of the image that a field names.

    `program` is the command of podman, docker or bwrap, "" for any that is there; `run_options` are more options for
    it, as one text. `build_seconds` is how long it may take to fetch an image and run it once.
    """

    cache_bytes = float(1 << 20)
    """What is built is small: the program that runs containers keeps the images."""

    def __init__(self, field: str, *, program: str, run_options: str, build_seconds: float) -> None:
        self.field = field
        self.build_seconds = build_seconds
        self._program = program
        self._options = run_options

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` names an image, as this field does."""
        description.check(self.field, value)

    def prepare(self, value: Any, program: Program) -> str | dict[str, Any]:
        """Return the image, and how it is run."""
        return description.prepare(self.field, value)

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return nothing: no file of the program is needed."""
        return ()

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Have the image fetched, and run a container of it once. Raises RuntimeEnvError for one that can't be used."""
        from kernel_environment_container.commands import container_start, description_command
        from kernel_environment_container.contents import birth_of, check_contents, look, own_user
        from kernel_environment_container.leftovers import remove_leftovers
        from kernel_environment_container.programs import find_program

        title = f"runtime_env[{self.field!r}]"
        image = description.image_of(prepared)
        program = find_program(self._program, image, os.environ, title)
        remove_leftovers(program)
        options = description.split_options(f"{title}: the option run_options", [self._options])
        entry = shutil.copy(os.path.join(os.path.dirname(__file__), "entry.py"), place.directory)
        shared = place.shared or (place.directory,)
        start = container_start(program, image, options, shared, entry, own_user())
        process = os.getpid()
        contents = look(title, image, description_command(start, process, birth_of(process) or 0))
        check_contents(title, image, contents)
        variables = {**dict.fromkeys(OF_THE_NODE, ""), **contents.variables}
        start["node_variables"] = {name: os.environ.get(name) for name in variables}
        start["packages"] = [_copy_packages(os.path.join(place.directory, "first")), *contents.packages]
        return WorkerStart(variables=variables, paths=tuple(start["packages"]), python=_write(start, place.directory))


def _copy_packages(directory: str) -> str:
    """Copy the packages of the node that come before those of the image, and return where they are."""
    os.mkdir(directory)
    for name in FIRST:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            source = found.submodule_search_locations[0]
            shutil.copytree(source, os.path.join(directory, name), ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def _write(start: Mapping[str, Any], directory: str) -> str:
    """Write down how a container is run, and return the program that workers run as their interpreter."""
    with open(os.path.join(directory, "start.json"), "w", encoding="utf-8") as file:
        json.dump(start, file)
    launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launch.py")
    command = shlex.join([sys.executable, "-I", "-S", launcher, directory])
    path = os.path.join(directory, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(path, 0o700)
    return path
