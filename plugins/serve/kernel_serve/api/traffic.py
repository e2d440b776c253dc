"""Split an endpoint's requests: A/B tests, canaries, shadows, and clients that stay with one version."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kernel_serve.api.controller_calls import ask
from kernel_serve.api.run import status
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.names import missing, nearest
from kernel_serve.routing.router import hear_here
from kernel_serve.values import Endpoint, Target, key_of


def set_traffic(
    endpoint: str,
    traffic: Mapping[str, float],
    *,
    shadow: Mapping[str, float] | None = None,
    sticky_by: str | None = None,
) -> None:
    """Split the requests of an endpoint by weight, from now on; return when all proxies do so.

    `endpoint` is the name of an endpoint or an application, or a route such as "/api"; for a route that is free an
    endpoint is created. `traffic` maps applications ("app", its ingress), deployments ("app#deployment") or backends to
    weights from 0 on; those of backends must sum to 1. `shadow` maps them to the shares, from 0 to 1, of the requests
    of which they get copies; their answers are discarded. `sticky_by` keeps requests with the same value of
    `header:NAME`, `cookie:NAME`, `query:NAME` or `client` at one target, as far as the weights allow. None keeps what
    was set; `{}` and `""` end it.

    Raises NotServingError for unknown names, and DeploymentError for a bad split.
    """
    known = status()
    before = _find(endpoint, known, traffic)
    shown = before["name"] if before is not None else endpoint
    to_backends = before is not None and before["stands_alone"]
    targets = _targets(traffic, known, f"the traffic of {shown!r}", "backend" if to_backends else "application")
    if to_backends and not math.isclose(sum(each.weight for each in targets), 1.0, rel_tol=1e-6):
        total = sum(each.weight for each in targets)
        raise DeploymentError(
            f"the weights of endpoint {shown!r} must sum to 1, but {_written(traffic)} sums to {total:g}"
        )
    shadows = tuple(Target(key, share) for key, share in (before["shadows"] if before else {}).items())
    if shadow is not None:
        shadows = _targets(shadow, known, f"the shadows of {shown!r}", "application")
    sticky = sticky_by if sticky_by is not None else before["sticky"] if before else ""
    made = Endpoint(
        shown,
        before["route_prefix"] if before else endpoint,
        targets,
        frozenset(before["methods"]) if before else frozenset(),
        shadows,
        sticky,
        stands_alone=to_backends,
    )
    hear_here(ask("set_endpoint", made))


def delete_endpoint(endpoint: str) -> None:
    """Delete an endpoint that was created, for example by `set_traffic` for a route; return when it is gone.

    The deployments that answered its requests stay. An application's own endpoint can't be deleted; if its traffic was
    set, that is undone. Raises NotServingError for an unknown endpoint.
    """
    found = _find(endpoint, status(), {})
    name = found["name"] if found is not None else endpoint
    hear_here(ask("delete_endpoint", name))


def _find(endpoint: str, known: Mapping[str, Any], traffic: Mapping[str, float]) -> Mapping[str, Any] | None:
    """Return what is known of an endpoint, by its name or its route; None for a route that is free."""
    if not isinstance(endpoint, str):
        raise DeploymentError(f"set_traffic() takes the name or the route of an endpoint, not {endpoint!r}")
    for each in known["endpoints"]:
        if each["name"] == endpoint:
            return each  # type: ignore[no-any-return]
    if endpoint.startswith("/"):
        route = endpoint.rstrip("/") or "/"
        return next((each for each in known["endpoints"] if each["route_prefix"] == route), None)
    names = [each["name"] for each in known["endpoints"]]
    if endpoint in known["applications"]:
        named = next(iter(traffic), None) if isinstance(traffic, Mapping) else None
        alone = [each["name"] for each in known["endpoints"] if each["stands_alone"]]
        if known["applications"][endpoint]["is_backend"] or named in alone:
            unmade = "" if named in names else f" (and there is no endpoint {named!r} yet)"
            raise NotServingError(
                f"there is no endpoint {endpoint!r}, but a backend: the endpoint comes first, as in "
                f"serve.set_traffic({named!r}, {{{endpoint!r}: 1.0}}){unmade}"
            )
        raise NotServingError(
            f"{endpoint!r} has no route of its own: make an endpoint for it, as in "
            f"serve.set_traffic('/{endpoint}', {{{endpoint!r}: 1.0}})"
        )
    raise NotServingError(missing("endpoint", endpoint, names))


def _targets(given: Any, known: Mapping[str, Any], what: str, kind: str) -> tuple[Target, ...]:
    if not isinstance(given, Mapping):
        raise DeploymentError(f"{what} maps names to numbers, as in {{'a': 0.7, 'b': 0.3}}; it is not {given!r}")
    for name, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
            raise DeploymentError(f"{what} gives {name!r} the weight {weight!r}: weights are numbers from 0 on")
    return tuple(Target(_key(name, known, what, kind), float(weight)) for name, weight in given.items())


def _key(name: str, known: Mapping[str, Any], what: str, kind: str) -> str:
    """Return the key of what a user names: an application's ingress, or a deployment."""
    applications = known["applications"]
    if name in applications:
        return key_of(name, applications[name]["ingress"])
    application, _, deployment = str(name).rpartition("#")
    if application in applications:
        deployments = applications[application]["deployments"]
        if deployment in deployments:
            return key_of(application, deployment)
        raise NotServingError(
            f"{what} names a deployment {deployment!r}, but application {application!r} has none of that name"
            f"{nearest(deployment, deployments)}"
        )
    alike = [each for each, found in applications.items() if found["is_backend"] == (kind == "backend")]
    raise NotServingError(f"{what} names {name!r}, but there is no {kind} of that name{nearest(name, alike)}")


def _written(traffic: Mapping[str, float]) -> str:
    return " + ".join(f"{weight:g}" for weight in traffic.values()) or "nothing"
