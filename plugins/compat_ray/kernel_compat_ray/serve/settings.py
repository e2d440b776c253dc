"""Settings of Serve as objects, made by the names that they have in Ray Serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.serve import settings
from kernel.serve.errors import DeploymentError
from kernel_compat_ray.serve.setting_names import autoscaling


class AutoscalingConfig(settings.AutoscalingConfig):
    """Makes settings of autoscaling, of today's and other names."""

    def __new__(cls, **given: Any) -> settings.AutoscalingConfig:  # type: ignore[misc]
        """Raises DeploymentError for what there is not, or is not the same here."""
        try:
            named = autoscaling(given)
        except ValueError as error:
            raise DeploymentError(f"AutoscalingConfig: {error}") from None
        return settings.checked(settings.AutoscalingConfig, named)


class AutoscalingPolicy(dict[str, Any]):
    """A policy, or its import path, with its arguments: a value of `AutoscalingConfig(policy=...)`."""

    def __init__(
        self,
        policy_function: str | Callable[..., Any] | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(policy_function=policy_function, policy_kwargs=dict(policy_kwargs or {}))


class HTTPOptions(settings.HTTPOptions):
    """Makes settings of proxies; what reserves resources for them, or names their address, is left out."""

    def __new__(cls, **given: Any) -> settings.HTTPOptions:  # type: ignore[misc]
        """Raises DeploymentError for what there is not, and for `location`."""
        if given.pop("location", None) is not None:
            raise DeploymentError("HTTPOptions has no setting 'location': say serve.start(proxy_location=...)")
        if "host" in given and given["host"] is None:
            raise DeploymentError('host of HTTPOptions is None: say serve.start(proxy_location="Disabled")')
        for ignored in ("num_cpus", "root_url"):
            given.pop(ignored, None)
        if "middlewares" in given:
            given["middlewares"] = tuple(given["middlewares"])
        return settings.checked(settings.HTTPOptions, given)
