"""The hooks of this distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.hooks import hookimpl

_IMAGE = "docker.io/library/python:3.12"
CONFORMANCE = {
    "environment": {
        "values": {
            "container": ({"image": _IMAGE}, {"image": "/srv/image", "run_options": ["--env 'A=b c'"], "python": "py"}),
            "image_uri": (_IMAGE, "/srv/image"),
        },
        "wrong_values": {
            "container": (5, _IMAGE, {}, {"image": ""}, {"imag": _IMAGE}, {"image": _IMAGE, "run_options": "--rm"}),
            "image_uri": (5, "", {"image": _IMAGE}, "two words", "--privileged"),
        },
        "builds": False,
    }
}
"""Values for the conformance suite, which has no image."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"environment": 1}


@hookimpl
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:
    """Offer the fields `container` and `image_uri`."""
    return {"container": make_container_builder, "image_uri": make_image_uri_builder}


def make_container_builder(
    *, program: str = "", run_options: str = "", build_seconds: float = 1800.0
) -> EnvironmentBuilder:
    """Return the builder, which runs containers by `program` with `run_options`.

    Fetching an image and running it once may take `build_seconds`.
    """
    return _builder("container", program, run_options, build_seconds)


def make_image_uri_builder(
    *, program: str = "", run_options: str = "", build_seconds: float = 1800.0
) -> EnvironmentBuilder:
    """Return the same for the field that is the name of an image and nothing else."""
    return _builder("image_uri", program, run_options, build_seconds)


def _builder(field: str, program: str, run_options: str, build_seconds: float) -> EnvironmentBuilder:
    from kernel_environment_container.builder import ContainerEnvironment

    return ContainerEnvironment(field, program=program, run_options=run_options, build_seconds=build_seconds)
