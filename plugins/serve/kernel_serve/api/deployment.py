"""The decorator that declares a function or a class as a deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_serve.api.declared import Deployment
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import DeploymentSettings


def deployment(target: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a function or a class as a deployment, as in `@serve.deployment(num_replicas=2)`.

    Options are those of `DeploymentSettings`, `name`, `version`, `route_prefix`, `autoscaling_config`, and
    `num_replicas="auto"`. Returns a `Deployment`, or without `target` a decorator that returns one. Raises
    DeploymentError for a target that can't be called, and for an unknown or bad option.
    """
    return declare(Deployment, target, options)


def declare(kind: type[Deployment], target: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    """Return a deployment of the class `kind`, or without `target` a decorator that returns one."""

    def decorate(target: Callable[..., Any]) -> Deployment:
        if not callable(target):
            raise DeploymentError(f"@serve.deployment is for functions and classes, not for a {type(target).__name__}")
        first = kind(target, getattr(target, "__name__", type(target).__name__), DeploymentSettings())
        return first.options(**options)

    return decorate if target is None else decorate(target)
