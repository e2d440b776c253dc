"""The builder of the field `conda`, which the kernel calls: see `kernel_spec.environments`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from kernel_environment_conda.description import check, prepare
from kernel_spec.environments import BuildPlace, Program, WorkerStart


class CondaEnvironment:
    """Builds the conda environment that the field describes, or finds the one that it names.

    `build_seconds` is how long that may take, `cache_bytes` how much of it a node keeps.
    """

    field = "conda"

    def __init__(self, *, build_seconds: float, cache_bytes: float) -> None:
        self.build_seconds = build_seconds
        self.cache_bytes = cache_bytes

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a name, a path, or a dict with `dependencies`."""
        check(value)

    def prepare(self, value: Any, program: Program) -> str | dict[str, Any]:
        """Return the name or path of an environment of the nodes, or what one is built of. Files are read here."""
        return prepare(value)

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return nothing: no file of the program is needed."""
        return ()

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Build or find the environment. Raises RuntimeEnvError with the reason of the solver or of pip."""
        from kernel_environment_conda.existing import find_prefix
        from kernel_environment_conda.installation import install
        from kernel_environment_conda.interpreter import worker_start

        if isinstance(prepared, str):
            prefix = find_prefix(prepared, os.environ)
        else:
            prefix = os.path.join(place.directory, "prefix")
            install(prepared, prefix)
        return worker_start(prefix, place.directory)
