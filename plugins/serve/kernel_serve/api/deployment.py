"""Deployments that can be run one by one, each as an application of its own, and found again by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cloudpickle

from kernel_serve.api.controller_calls import ask
from kernel_serve.api.declared import UNSET, DeclaredDeployment
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.names import missing
from kernel_serve.settings import DeploymentSettings
from kernel_serve.values import ApplicationSpec, key_of

if TYPE_CHECKING:
    from kernel_serve.api.handle import DeploymentHandle


class Deployment(DeclaredDeployment):
    """A function or a class, and how it is to run: what `@serve.deployment` makes."""

    def deploy(self, *args: Any, **kwargs: Any) -> None:
        """Run it, with its constructor's arguments, as an application of its own name; return when it takes requests.

        Its route is `/NAME`, unless `route_prefix` is an option of it. `serve.run` does the same for any application.
        """
        from kernel_serve.api.run import run  # here: few programs run one by one

        run(self.bind(*args, **kwargs), name=self.name, route_prefix=self.url)

    def get_handle(self, sync: bool = True) -> DeploymentHandle:
        """Return a handle to it, once it is deployed. `sync` changes nothing: handles serve both."""
        from kernel_serve.api.handle import DeploymentHandle  # see above

        return DeploymentHandle(self.name, self._application)

    def delete(self) -> None:
        """Delete the application that it was deployed as, as `serve.delete` does."""
        from kernel_serve.api.run import delete  # see above

        delete(self._application)

    @property
    def url(self) -> str | None:
        """Its route, once it is deployed alone; None without one."""
        return f"/{self.name}" if self.route_prefix is UNSET else self.route_prefix


def deployment(target: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a function or a class as a deployment, as in `@serve.deployment(num_replicas=2)`.

    Options are those of `DeploymentSettings`, `name`, `version`, `route_prefix`, and `num_replicas="auto"`. Raises
    DeploymentError.
    """

    def declare(target: Callable[..., Any]) -> Deployment:
        if not callable(target):
            raise DeploymentError(f"@serve.deployment is for functions and classes, not for a {type(target).__name__}")
        first = Deployment(target, getattr(target, "__name__", type(target).__name__), DeploymentSettings())
        return first.options(**options)

    return declare if target is None else declare(target)


def get_deployment(name: str) -> Deployment:
    """Return a deployment that runs, by its name. Raises NotServingError when there is none."""
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
            is_ingress = each.name == spec.ingress
            route = spec.route_prefix if is_ingress else None
            made = Deployment(target, each.name, each.settings, route_prefix=route, application=application)
            found[key_of(application, each.name) if each.name in found else each.name] = made
    return found
