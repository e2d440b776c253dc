"""The builders of the fields `pip` and `uv`, which the kernel calls: see `kernel_spec.environments`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_environment_pip.requirements import PackageField, packages_of
from kernel_spec.environments import BuildPlace, Program, WorkerStart


class PackageEnvironment:
    """Installs the packages that a field names into a virtual environment of the node's interpreter.

    `build_seconds` is how long that may take, `cache_bytes` how much of it a node keeps.
    """

    def __init__(self, named: PackageField, *, build_seconds: float, cache_bytes: float) -> None:
        self.field = named.installer
        self.build_seconds = build_seconds
        self.cache_bytes = cache_bytes
        self._named = named

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` is a list of requirements, a path, or a dict with `packages`."""
        self._named.check(value)

    def prepare(self, value: Any, program: Program) -> dict[str, Any]:
        """Return the packages and how they are installed. Archives of this machine are sent to the session."""
        return self._named.prepare(value, program.pack)

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return the packages with archives that are to be installed."""
        return packages_of(prepared)

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Make the virtual environment. Raises RuntimeEnvError with what the installer wrote last."""
        from kernel_environment_pip.virtual_environment import VirtualEnvironment

        environment = VirtualEnvironment(place.directory, self._named)
        environment.make()
        environment.install(prepared, place.package)
        return environment.worker_start()
