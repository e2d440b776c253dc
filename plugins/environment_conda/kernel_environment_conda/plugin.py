"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.hooks import hookimpl

CONFORMANCE = {
    "environment": {
        "values": ({"dependencies": ["python"]}, "/opt/conda/envs/mine", {"dependencies": []}),
        "wrong_values": (5, "", ["numpy"], {"dependency": ["numpy"]}, {"dependencies": [5]}),
        "builds": False,
    }
}
"""Values for the conformance suite, which has no channel of packages and no conda environment."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"environment": 1}


@hookimpl
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:
    """Offer the field `conda`."""
    return {"conda": make_conda_builder}


def make_conda_builder(*, build_seconds: float = 1800.0, cache_bytes: float = 20.0 * 2**30) -> EnvironmentBuilder:
    """Return the builder. A build may take `build_seconds`; a node keeps `cache_bytes` of them, or what is in use."""
    from kernel_environment_conda.builder import CondaEnvironment

    return CondaEnvironment(build_seconds=build_seconds, cache_bytes=cache_bytes)
