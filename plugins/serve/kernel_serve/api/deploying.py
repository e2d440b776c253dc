"""Deployments by name, each an application of its own: `deployment.deploy()`, and looking them up again."""

from __future__ import annotations

from typing import Any

import cloudpickle

from kernel_serve.api import run as api
from kernel_serve.api.asking import ask
from kernel_serve.api.deployment import UNSET, Deployment
from kernel_serve.errors import NotServingError
from kernel_serve.names import missing
from kernel_serve.values import ApplicationSpec, key_of


def deploy(deployment: Deployment, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a deployment as an application of its own name, at its `route_prefix`, which is `/NAME` unless it is set."""
    route = f"/{deployment.name}" if deployment.route_prefix is UNSET else deployment.route_prefix
    api.run(deployment.bind(*args, **kwargs), name=deployment.name, route_prefix=route)


def get_deployment(name: str) -> Deployment:
    """Return a deployment that runs, by its name. Raises NotServingError when there is none."""
    found = list_deployments()
    if name not in found:
        raise NotServingError(missing("deployment", name, found))
    return found[name]


def list_deployments() -> dict[str, Deployment]:
    """Return the deployments that run, by name: "application#deployment" where another has the same name."""
    found: dict[str, Deployment] = {}
    applications = api.status()["applications"]
    for application, facts in applications.items():
        if facts["first_generation"] or facts["status"] == "DELETING":
            continue
        spec: ApplicationSpec = ask("specification", application)
        for each in spec.deployments:
            target, _, _ = cloudpickle.loads(each.code)
            is_ingress = each.name == spec.ingress
            route = spec.route_prefix if is_ingress else None
            made = Deployment(target, each.name, each.settings, route_prefix=route, application=application)
            found[key_of(application, each.name) if each.name in found else each.name] = made
    return found
