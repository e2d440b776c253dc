"""The field `working_dir` of a runtime_env: a directory of the program in which workers run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_spec.environments import PACKAGE, BuildPlace, Program, WorkerStart
from kernel_spec.errors import RuntimeEnvError


class WorkingDirectory:
    """A directory, whose content workers find as their working directory and can import from."""

    field = "working_dir"
    build_seconds = cache_bytes = 0.0

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a path."""
        if not isinstance(value, (str, os.PathLike)):
            raise _not_a_directory(value)

    def prepare(self, value: Any, program: Program) -> str:
        """Return the package of the directory. Raises RuntimeEnvError when there is no such directory."""
        path = os.fspath(value)
        if path and not path.startswith(PACKAGE) and not os.path.isdir(path):
            raise _not_a_directory(value)
        return program.pack(path) if path else ""

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return the one package."""
        return (prepared,)

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Return the directory of the package."""
        directory = place.package(prepared)
        return WorkerStart(paths=(directory,), directory=directory)


def _not_a_directory(value: Any) -> RuntimeEnvError:
    return RuntimeEnvError(f"runtime_env['working_dir'] must be an existing directory, not {value!r}")
