"""What is refused before anything changes."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.names import nearest
from kernel_serve.values import ApplicationSpec


def check_application(spec: ApplicationSpec) -> None:
    """Raise DeploymentError for an application that can't be."""
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
            f"the ingress {spec.ingress!r} of application {spec.name!r} is none of its deployments: {', '.join(names)}"
        )


def check_same_generation(spec: ApplicationSpec, before: ApplicationSpec) -> None:
    """Raise DeploymentError if a backend of the first generation would take an application's place, or the reverse."""
    if spec.first_generation != before.first_generation:
        there, wanted = ("a backend", "an application") if before.first_generation else ("an application", "a backend")
        raise DeploymentError(
            f"{wanted} can't be named {spec.name!r}: there is {there} of that name; give it another, or delete "
            f"{there.split()[1]} {spec.name!r} first"
        )


def missing(name: str, known: Iterable[str], what: str) -> str:
    """Return that there is no `what` of that name, and which may be meant."""
    return f"there is no {what} {name!r}{nearest(name, list(known))}"


def check_known(name: str, known: Iterable[str], what: str) -> None:
    """Raise NotServingError unless there is a `what` of that name."""
    names = list(known)
    if name not in names:
        raise NotServingError(missing(name, names, what))


def _check_name(name: str, what: str) -> None:
    if not isinstance(name, str) or not name or "#" in name:
        raise DeploymentError(f"the name of {what} is a non-empty text without '#', not {name!r}")
