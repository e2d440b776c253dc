"""The builder of the field `pip`, which the kernel calls: see `kernel_spec.environments`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_environment_pip import requirements
from kernel_spec.environments import BuildPlace, Program, WorkerStart


class PipEnvironment:
    """Installs packages with pip into a virtual environment of the node's interpreter.

    `build_seconds` is how long that may take, `cache_bytes` how much of it a node keeps.
    """

    field = "pip"

    def __init__(self, *, build_seconds: float, cache_bytes: float) -> None:
        self.build_seconds = build_seconds
        self.cache_bytes = cache_bytes

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a list of requirements, a path, or a dict with `packages`."""
        requirements.check(value)

    def prepare(self, value: Any, program: Program) -> dict[str, Any]:
        """Return the packages and how they are installed. Archives of this machine are sent to the session."""
        return requirements.prepare(value, program.pack)

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return the packages with archives that are to be installed."""
        return requirements.packages_of(prepared)

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Make the virtual environment. Raises RuntimeEnvError with what pip wrote last."""
        from kernel_environment_pip.virtual_environment import VirtualEnvironment

        environment = VirtualEnvironment(place.directory)
        environment.make()
        environment.install(prepared, place.package)
        return environment.worker_start()
