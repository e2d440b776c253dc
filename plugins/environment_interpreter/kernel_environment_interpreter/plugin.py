"""The hooks of this distribution."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.hooks import hookimpl

CONFORMANCE = {
    "environment": {
        "values": (sys.executable, f"{sys.executable} -s", [sys.executable, "-s"]),
        "wrong_values": (5, "", [], ["python", 5], "python 'not closed"),
    }
}
"""Values for the conformance suite."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"environment": 1}


@hookimpl
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:
    """Offer the field `py_executable`."""
    return {"py_executable": make_interpreter_builder}


def make_interpreter_builder(*, build_seconds: float = 900.0) -> EnvironmentBuilder:
    """Return the builder. The command may take `build_seconds` to run an interpreter for the first time."""
    from kernel_environment_interpreter.builder import InterpreterEnvironment

    return InterpreterEnvironment(build_seconds=build_seconds)
