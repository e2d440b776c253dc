"""The field `py_modules` of a runtime_env: modules and packages of the program that workers can import."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from kernel_spec.environments import PACKAGE, BuildPlace, Program, WorkerStart
from kernel_spec.errors import RuntimeEnvError


class PythonModules:
    """A list of modules, and of paths of files and directories."""

    field = "py_modules"
    build_seconds = cache_bytes = 0.0

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a list of modules and paths."""
        expected = "runtime_env['py_modules'] must be a list of modules and paths"
        if not isinstance(value, (list, tuple)):
            raise RuntimeEnvError(f"{expected}, not {value!r}")
        for item in value:
            if not isinstance(item, (str, os.PathLike, ModuleType)):
                raise RuntimeEnvError(f"{expected}, and {item!r} is neither")

    def prepare(self, value: Any, program: Program) -> list[str]:
        """Return the packages of all modules and paths. Raises RuntimeEnvError for a path that does not exist."""
        paths = [_path_of(module) for module in value]
        return [program.pack(path, os.path.basename(os.path.normpath(path))) for path in paths]

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return all packages."""
        return tuple(prepared)

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Return the directories of the packages as `paths`."""
        return WorkerStart(paths=tuple(map(place.package, prepared)))


def _path_of(module: Any) -> str:
    if isinstance(module, str) and module.startswith(PACKAGE):
        return module
    if isinstance(module, ModuleType):
        locations = getattr(module, "__path__", None)
        path = locations[0] if locations else module.__file__ or ""
    else:
        path = os.path.abspath(os.fspath(module))
    if not os.path.exists(path):
        raise RuntimeEnvError(f"runtime_env['py_modules'] names {module!r}, which does not exist")
    return path
