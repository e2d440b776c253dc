"""Checks of an application before anything changes."""

from __future__ import annotations

from kernel_serve.errors import DeploymentError
from kernel_serve.values import ApplicationSpec


def check_application(spec: ApplicationSpec) -> None:
    """Raise DeploymentError for an application that can't be deployed."""
    _check_name(spec.name, "an application")
    names = [each.name for each in spec.deployments]
    for each in spec.deployments:
        _check_name(each.name, f"a deployment of application {spec.name!r}")
        if names.count(each.name) > 1:
            raise DeploymentError(
                f"application {spec.name!r} has two deployments of the name {each.name!r}; give one another by "
                ".options(name=...)"
            )
        if each.application != spec.name:
            raise DeploymentError(f"deployment {each.key!r} is not one of application {spec.name!r}")
    if spec.ingress not in names:
        raise DeploymentError(
            f"the ingress {spec.ingress!r} of application {spec.name!r} is not among its deployments: "
            f"{', '.join(names)}"
        )


def check_same_kind(spec: ApplicationSpec, before: ApplicationSpec) -> None:
    """Raise DeploymentError if a backend would take an application's place, or the reverse."""
    if spec.is_backend != before.is_backend:
        there, wanted = ("a backend", "an application") if before.is_backend else ("an application", "a backend")
        raise DeploymentError(
            f"{wanted} can't be named {spec.name!r}: there is {there} of that name; give it another, or delete "
            f"{there.split()[1]} {spec.name!r} first"
        )


def _check_name(name: str, what: str) -> None:
    if not isinstance(name, str) or not name or "#" in name:
        raise DeploymentError(f"the name of {what} is a non-empty text without '#', not {name!r}")
