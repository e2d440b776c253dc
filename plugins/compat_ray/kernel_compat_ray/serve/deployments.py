"""Deployments by Ray Serve's names: options of all releases, and deployments that run one by one.

Between 1.9 and 2.7 a deployment could be run alone (`deployment.deploy()`), as an application of its own name, and
found again (`serve.get_deployment`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from kernel.serve.api import declared
from kernel.serve.api.controller_calls import ask
from kernel.serve.api.declared import UNSET
from kernel.serve.api.deployment import declare
from kernel.serve.api.handle import DeploymentHandle
from kernel.serve.api.run import delete, run
from kernel.serve.errors import NotServingError
from kernel.serve.names import missing
from kernel.serve.settings import DeploymentSettings
from kernel.serve.values import ApplicationSpec, key_of
from kernel_compat_ray.serve.setting_names import deployment_options


class Deployment(declared.Deployment):
    """Holds a function or a class and how it is to run, as `@serve.deployment` makes it."""

    def __init__(
        self,
        target: Callable[..., Any],
        name: str,
        settings: DeploymentSettings,
        version: str = "",
        *,
        route_prefix: str | None = UNSET,
        application: str = "",
    ) -> None:
        super().__init__(target, name, settings, version, route_prefix=route_prefix)
        self._application = application or name

    def options(self, func_or_class: Callable[..., Any] | None = None, **options: Any) -> Deployment:
        """Return the deployment with other options, by Ray's names or kernel's. Raises DeploymentError for bad ones."""
        return super().options(func_or_class, **deployment_options(options, f"deployment {self.name}"))

    @property
    def ray_actor_options(self) -> Mapping[str, Any]:
        """The options of the replicas' processes."""
        return self.settings.actor_options

    def deploy(self, *args: Any, **kwargs: Any) -> None:
        """Run the deployment, with its constructor's arguments, as an application of its name. Return when it is ready.

        The route is `/NAME`, unless the option `route_prefix` says another. Raises what `serve.run` raises.
        """
        run(self.bind(*args, **kwargs), name=self.name, route_prefix=self.url)

    def get_handle(self, sync: bool = True) -> DeploymentHandle:
        """Return a handle to it, once it is deployed. `sync` changes nothing: a handle serves both kinds of callers."""
        return DeploymentHandle(self.name, self._application)

    def delete(self) -> None:
        """Delete the application that it was deployed as, as `serve.delete` does."""
        delete(self._application)

    @property
    def url(self) -> str | None:
        """The route of the deployment when it is deployed alone; None without one."""
        return f"/{self.name}" if self.route_prefix is UNSET else self.route_prefix


def deployment(target: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a function or a class as a deployment, as `kernel.serve.deployment` does. Options may have Ray's names.

    Raises DeploymentError for a target that can't be called, and for an unknown or bad option.
    """
    return declare(Deployment, target, options)


def get_deployment(name: str) -> Deployment:
    """Return a running deployment by its name. Raises NotServingError if none has that name."""
    found = list_deployments()
    if name not in found:
        raise NotServingError(missing("deployment", name, found))
    return found[name]


def list_deployments() -> dict[str, Deployment]:
    """Return the deployments that run, by name: "application#deployment" where another has the same name."""
    found: dict[str, Deployment] = {}
    applications = ask("status")["applications"]
    for application, facts in applications.items():
        if facts["is_backend"] or facts["status"] == "DELETING":
            continue
        spec: ApplicationSpec = ask("specification", application)
        for each in spec.deployments:
            target, _, _ = cloudpickle.loads(each.code)
            route = spec.route_prefix if each.name == spec.ingress else None
            made = Deployment(target, each.name, each.settings, route_prefix=route, application=application)
            found[key_of(application, each.name) if each.name in found else each.name] = made
    return found
