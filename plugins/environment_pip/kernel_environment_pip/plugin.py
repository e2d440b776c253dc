"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.hooks import hookimpl

CONFORMANCE = {
    "environment": {
        "values": (["--no-index  # and nothing else"], {"packages": ["--no-index"]}, []),
        "wrong_values": (5, [5], {"packagez": ["x"]}, {"packages": ["x"], "pip_check": "yes"}),
    }
}
"""Values for the conformance suite: they need no index of packages."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"environment": 1}


@hookimpl
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:
    """Offer the fields `pip` and `uv`."""
    return {"pip": make_pip_builder, "uv": make_uv_builder}


def make_pip_builder(*, build_seconds: float = 900.0, cache_bytes: float = 10.0 * 2**30) -> EnvironmentBuilder:
    """Return the builder. Installing may take `build_seconds`; a node keeps `cache_bytes` of it, or what is in use."""
    from kernel_environment_pip.builder import PackageEnvironment
    from kernel_environment_pip.requirements import PIP

    return PackageEnvironment(PIP, build_seconds=build_seconds, cache_bytes=cache_bytes)


def make_uv_builder(*, build_seconds: float = 900.0, cache_bytes: float = 10.0 * 2**30) -> EnvironmentBuilder:
    """Return the same, with uv for pip."""
    from kernel_environment_pip.builder import PackageEnvironment
    from kernel_environment_pip.requirements import UV

    return PackageEnvironment(UV, build_seconds=build_seconds, cache_bytes=cache_bytes)
