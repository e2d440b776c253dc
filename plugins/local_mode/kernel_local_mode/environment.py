"""Runtime environments in one process: they are set while a call runs, and undone afterwards.

Variables, working directory and module path belong to the whole process, so calls that run at the same time in
several threads see each other's; and a module stays imported once one call has imported it.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kernel.working_directory import working_directory
from kernel_engine.tasks.variables import expand
from kernel_spec.dataclass import dataclass
from kernel_spec.environments import PACKAGE
from kernel_spec.errors import RuntimeEnvError

Environment = Mapping[str, Any]
"""`{"env_vars": {...}, "working_dir": package, "py_modules": [package, ...]}`, as the public API prepares it."""


environment_here: ContextVar[Environment | None] = ContextVar("kernel_local_environment", default=None)
"""The environment of the running call."""


def within(outer: Environment | None, asked: Environment | None) -> Environment | None:
    """Return the environment that is asked for inside another: it adds to that one's.

    Variables of the same name and the working directory are the inner one's, its modules are found first. One with
    `"inherit": False` has nothing of the other.
    """
    if asked and not asked.get("inherit", True):
        return {name: value for name, value in asked.items() if name != "inherit"}
    if not outer or not asked:
        return asked or outer
    variables = {**outer.get("env_vars", {}), **asked.get("env_vars", {})}
    modules = list(dict.fromkeys([*asked.get("py_modules", ()), *outer.get("py_modules", ())]))
    return {**outer, **asked, "env_vars": variables, "py_modules": modules}


@dataclass(slots=True, eq=False)
class Layer:
    """Holds one environment in which some call runs."""

    variables: dict[str, str]
    directory: str
    paths: list[str]


class LocalEnvironments:
    """Holds unpacked packages, by the digest of their content, below `directory`.

    `of_program` is the environment of the program's tasks and actors that ask for none.
    """

    def __init__(self, directory: str) -> None:
        self.of_program: Environment | None = None
        self._directory = os.path.join(directory, "packages")
        self._lock = threading.RLock()  # A destructor may make a call during a change.
        self._layers: list[Layer] = []
        self._variables_before: dict[str, str | None] = {}
        self._directory_before = ""
        self._shown = ""

    def has(self, digest: str) -> bool:
        """Return whether a package is unpacked."""
        return os.path.isdir(self._path(digest))

    def add(self, digest: str, archive: bytes) -> None:
        """Unpack a package. Raises RuntimeEnvError when it is damaged."""
        if hashlib.blake2b(archive, digest_size=16).hexdigest() != digest:
            raise RuntimeEnvError(f"package {digest} is damaged; call init() again")
        with self._lock:
            if self.has(digest):
                return
            try:
                with zipfile.ZipFile(io.BytesIO(archive)) as package:
                    os.makedirs(self._path(digest))
                    package.extractall(self._path(digest))
            except (OSError, zipfile.BadZipFile) as error:
                raise RuntimeEnvError(f"package {digest} can't be unpacked in {self._directory}: {error}") from error

    def here(self) -> Environment | None:
        """Return what the caller runs in; outside of tasks and actors, what the program does."""
        return environment_here.get() or self.of_program

    def for_call(self, asked: Environment | None) -> Environment | None:
        """Return what a call of the caller's runs in that asks for an environment: on top of the caller's."""
        return within(self.here(), asked)

    @contextmanager
    def inside(self, environment: Environment | None) -> Iterator[None]:
        """Run the block in an environment."""
        if not environment:
            yield
            return
        layer = self.enter(environment)
        try:
            yield
        finally:
            self.leave(layer)

    def enter(self, environment: Environment) -> Layer:
        """Put an environment on top of those that calls are in; `leave` it in any order."""
        working = environment.get("working_dir")
        packages = [*([working] if working else []), *environment.get("py_modules", ())]
        layer = Layer(
            expand(environment.get("env_vars", {}), os.environ),
            self._path(working) if working else "",
            [self._path(digest) for digest in packages],
        )
        with self._lock:
            if not self._layers:
                self._directory_before = working_directory()
            for name in layer.variables:
                self._variables_before.setdefault(name, os.environ.get(name))
            self._layers.append(layer)
            sys.path[:0] = layer.paths
            self._show()
        return layer

    def leave(self, layer: Layer) -> None:
        """Take an environment back."""
        with self._lock:
            self._layers.remove(layer)
            for path in layer.paths:
                if path in sys.path:
                    sys.path.remove(path)
            self._show()
            if not self._layers:
                self._variables_before.clear()

    def _show(self) -> None:
        """Set variables and directory as the topmost layers have them, else as they were before all layers."""
        for name, before in self._variables_before.items():
            values = [layer.variables[name] for layer in self._layers if name in layer.variables]
            value = values[-1] if values else before
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        directories = [layer.directory for layer in self._layers if layer.directory]
        wanted = directories[-1] if directories else ("" if self._shown == "" else self._directory_before)
        if wanted and wanted != self._shown:
            os.chdir(wanted)
        self._shown = directories[-1] if directories else ""

    def _path(self, digest: str) -> str:
        """Return the directory of a package, of which `digest` is the digest or the name."""
        return os.path.join(self._directory, digest.removeprefix(PACKAGE))
