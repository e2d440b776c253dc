"""The state of Serve as plain values, for users and programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kernel_serve.control import deployment_status
from kernel_serve.control.application_state import NOT_STARTED, ApplicationState
from kernel_serve.control.state import ServeState
from kernel_serve.values import Endpoint, Target


def status(state: ServeState, now: float) -> dict[str, Any]:
    """Return applications with their deployments and replicas, proxies, and endpoints."""
    return {
        "applications": {name: _application(state, each, now) for name, each in state.applications.items()},
        "proxy_location": state.proxies.wish.location if state.proxies.wish else None,
        "proxies": state.proxies.view(),
        "endpoints": [_endpoint(each) for each in state.endpoints.all(state.applications).values()],
    }


def counts(state: ServeState) -> dict[str, Any]:
    """Return what metrics show: applications by status, deployments in numbers, and proxies by status."""
    deployments: dict[str, dict[str, Any]] = {}
    for each in state.deployments.values():
        deployments.setdefault(each.spec.application, {})[each.spec.name] = deployment_status.counts(each)
    return {
        "applications": {
            name: {"status": each.status(state.deployments), "deployments": deployments.get(name, {})}
            for name, each in state.applications.items()
        },
        "proxies": Counter(proxy["status"] for proxy in state.proxies.view().values()),
    }


def status_of(state: ServeState, name: str, now: float) -> tuple[str, str]:
    """Return the status of an application, and the message that explains it."""
    found = state.applications.get(name)
    if found is None:
        return NOT_STARTED, f"there is no application {name!r}"
    return found.status(state.deployments), found.message(state.deployments, now)


def history(state: ServeState, key: str = "") -> list[str]:
    """Return the events of a deployment, or (with "") of all deployments and the proxies, oldest first."""
    if key:
        found = state.deployments.get(key)
        return list(found.history) if found is not None else []
    lines = [line for each in state.deployments.values() for line in each.history]
    return sorted([*lines, *state.proxies.history], key=lambda line: float(line.split(" ", 1)[0]))


def _application(state: ServeState, application: ApplicationState, now: float) -> dict[str, Any]:
    parts = [each for each in state.deployments.values() if each.spec.application == application.name]
    replicas: Counter[str] = Counter()
    shown = {}
    for part in parts:
        view = deployment_status.view(part, now)
        view["autoscaling_decision"] = state.scaling.explanation(part.key, part.target, now)
        replicas.update(view["replica_states"])
        shown[part.spec.name] = view
    return {
        "name": application.name,
        "status": application.status(state.deployments),
        "message": application.message(state.deployments, now),
        "route_prefix": application.serving.route_prefix,
        "ingress": application.serving.ingress,
        "is_backend": application.goal.is_backend,
        "last_deployed_time_s": application.deployed,
        "replica_states": dict(replicas),
        "deployments": shown,
    }


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "route_prefix": endpoint.prefix,
        "methods": sorted(endpoint.methods),
        "targets": _targets(endpoint.targets),
        "shadows": _targets(endpoint.shadows),
        "sticky": endpoint.sticky,
        "stands_alone": endpoint.stands_alone,
    }


def _targets(targets: tuple[Target, ...]) -> dict[str, float]:
    return {target.deployment: target.weight for target in targets}
