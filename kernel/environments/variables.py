"""The field `env_vars` of a runtime_env: environment variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_spec.environments import BuildPlace, Program, WorkerStart
from kernel_spec.errors import RuntimeEnvError


class EnvironmentVariables:
    """A mapping of names to texts, in which `${NAME}` stands for another variable."""

    field = "env_vars"
    build_seconds = cache_bytes = 0.0

    def check(self, value: Any) -> None:
        """Raise RuntimeEnvError unless `value` maps names of variables to strings."""
        if not isinstance(value, Mapping):
            raise RuntimeEnvError(
                f"runtime_env['env_vars'] must map strings to strings, not a {type(value).__name__}: {value!r}"
            )
        for name, text in value.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise RuntimeEnvError(f"runtime_env['env_vars'] must map strings to strings, not {name!r} to {text!r}")
            if not name or "=" in name or "\0" in name + text:
                raise RuntimeEnvError(f"runtime_env['env_vars'] has {name!r}, which can't name an environment variable")

    def prepare(self, value: Any, program: Program) -> dict[str, str]:
        """Return the variables, sorted by name."""
        return dict(sorted(value.items()))

    def packages(self, prepared: Any) -> Sequence[str]:
        """Return no packages."""
        return ()

    def build(self, prepared: Any, place: BuildPlace) -> WorkerStart:
        """Return the variables."""
        return WorkerStart(variables=prepared)
