"""What the controller is told, one after another, to bring a configuration about. Nothing is done here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kernel_serve.config.specs import endpoint_of
from kernel_serve.config.values import ServeConfig
from kernel_serve.values import ApplicationSpec
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConfigStep:
    """A call of one of the controller's methods."""

    method: str
    arguments: tuple[Any, ...]


def steps(
    config: ServeConfig, specs: Sequence[ApplicationSpec], before: Mapping[str, Any] | None, status: Mapping[str, Any]
) -> list[ConfigStep]:
    """Return the calls that bring a configuration about. Raises DeploymentError for endpoints without applications.

    `before` is the `data` of the configuration there was: what was in it and is not in this one is deleted, what was
    deployed otherwise stays. `status` is what the controller says.
    """
    running = {name: each.get("ingress") or "" for name, each in (status.get("applications") or {}).items()}
    there = [each["name"] for each in status.get("endpoints") or ()]
    gone = _gone(before, "applications", [each.name for each in config.applications], running)
    ingresses = {**running, **{spec.name: spec.ingress for spec in specs}}
    for name in gone:
        del ingresses[name]
    endpoints = [endpoint_of(each, ingresses) for each in config.endpoints]
    found = [ConfigStep("deploy", (list(specs),))]
    found += [ConfigStep("set_endpoint", (endpoint,)) for endpoint in endpoints]
    kept = [each.name for each in config.endpoints]
    found += [ConfigStep("delete_endpoint", (name,)) for name in _gone(before, "endpoints", kept, there)]
    if gone:
        found.append(ConfigStep("delete", (gone,)))
    return found


def _gone(before: Mapping[str, Any] | None, what: str, kept: Sequence[str], there: Collection[str]) -> list[str]:
    names = [each["name"] for each in (before or {}).get(what) or []]
    return [name for name in names if name not in kept and name in there]
