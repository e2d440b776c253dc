"""Backends, which answer requests, and their settings. They exist without endpoints, and endpoints without them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernel.serve.api import run as api
from kernel.serve.api.controller_calls import ask
from kernel.serve.api.declared import Deployment
from kernel.serve.api.graph import flatten
from kernel.serve.api.runtime_environments import RuntimeEnvironments
from kernel.serve.errors import DeployFailedError, DeploymentError, NotServingError
from kernel.serve.names import missing
from kernel.serve.values import ApplicationSpec
from kernel_compat_ray.serve.first_generation.accept_batch import accepts_batches
from kernel_compat_ray.serve.first_generation.config import (
    RESERVED,
    BackendConfig,
    accepts_batches_in,
    config_in,
    config_of,
    settings_of,
)
from kernel_compat_ray.serve.first_generation.replica import BackendReplica


def create_backend(
    backend_tag: str,
    func_or_class: Callable[..., Any],
    *actor_init_args: Any,
    config: BackendConfig | Mapping[str, Any] | None = None,
    actor_options: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Run a function, or objects of a class that can be called, as the backend `backend_tag`; return when it runs.

    It is called with one request like Flask's. `actor_init_args` are for the class, `actor_options` (`num_cpus`,
    `runtime_env`, ...) for the actors of its replicas. Requests reach it when `set_traffic` gives it a share of an
    endpoint's. Raises DeploymentError for what can't be, also when the tag is taken, and DeployFailedError with the
    traceback of the user's code when that can't be made to run.
    """
    actor_options = {**(more.pop("ray_actor_options", None) or {}), **(actor_options or {})}
    if more:
        raise DeploymentError(
            f"create_backend() takes no argument {next(iter(more))!r}: settings go into config={{...}}"
        )
    _check(backend_tag, func_or_class, actor_init_args)
    wanted = config_of(config)
    _check_batching(backend_tag, wanted, accepts_batches(func_or_class))
    api.start()
    if backend_tag in api.status()["applications"]:
        raise DeploymentError(
            f"there is a backend or an application {backend_tag!r} already: serve.delete_backend({backend_tag!r}) "
            f"frees the tag, and serve.update_backend_config({backend_tag!r}, ...) changes how it runs"
        )
    settings = settings_of(wanted, accepts_batches(func_or_class), actor_options)
    deployment = Deployment(BackendReplica, backend_tag, settings)
    spec = flatten(deployment.bind(func_or_class, actor_init_args), backend_tag, None, RuntimeEnvironments())
    _deploy(replace(spec, is_backend=True), is_new=True)


def update_backend_config(backend_tag: str, config: BackendConfig | Mapping[str, Any]) -> None:
    """Change how a backend runs, without a failed request; what a dict does not name stays. Return when it is so.

    Raises NotServingError when there is no such backend, DeploymentError for what can't be.
    """
    spec = _specification(backend_tag)
    (deployment,) = spec.deployments
    before = deployment.settings
    accepts = accepts_batches_in(before)
    wanted = config_of(config, config_in(before))
    _check_batching(backend_tag, wanted, accepts)
    own = {name: value for name, value in before.actor_options.items() if name not in RESERVED}
    settings = settings_of(wanted, accepts, own)
    version = deployment.version
    if settings.actor_options != before.actor_options:  # Other reservations need other replicas.
        version = hashlib.sha256(f"{version} {sorted(settings.actor_options.items())!r}".encode()).hexdigest()[:16]
    changed = replace(deployment, settings=settings, version=version)
    _deploy(replace(spec, deployments=(changed,)), is_new=False)


def get_backend_config(backend_tag: str) -> BackendConfig:
    """Return how a backend runs. Raises NotServingError when there is no such backend."""
    (deployment,) = _specification(backend_tag).deployments
    return config_in(deployment.settings)


def delete_backend(backend_tag: str) -> None:
    """Delete a backend; return when its replicas are gone, and its tag can be used again.

    Raises DeploymentError while an endpoint sends requests to it, NotServingError when there is no such backend.
    """
    _check_known(backend_tag)
    api.delete(backend_tag)


def list_backends() -> dict[str, BackendConfig]:
    """Return the config of each backend, by tag."""
    return {tag: get_backend_config(tag) for tag in known_backends(api.status())}


def known_backends(status: Mapping[str, Any]) -> list[str]:
    """Return the tags of the backends in Serve's status."""
    applications = status["applications"]
    return sorted(name for name, each in applications.items() if each["is_backend"] and each["status"] != "DELETING")


def _deploy(spec: ApplicationSpec, is_new: bool) -> None:
    api.deploy([spec])
    try:
        api.wait_until_running(spec.name)
    except DeployFailedError as error:
        if is_new:
            api.delete(spec.name)
        said = str(error).partition(": ")[2]
        raise DeployFailedError(f"backend {spec.name!r} can't be made to run: {said}") from None


def _specification(backend_tag: str) -> ApplicationSpec:
    _check_known(backend_tag)
    spec: ApplicationSpec = ask("specification", backend_tag)
    return spec


def _check_known(backend_tag: str) -> None:
    known = known_backends(api.status())
    if backend_tag not in known:
        raise NotServingError(missing("backend", backend_tag, known))


def _check(backend_tag: str, func_or_class: Any, args: tuple[Any, ...]) -> None:
    if not isinstance(backend_tag, str):
        raise DeploymentError(f"create_backend() takes a tag and a function or a class, not {backend_tag!r} as the tag")
    if not callable(func_or_class):
        raise DeploymentError(
            f"backend {backend_tag!r} is to be a function or a class, not a {type(func_or_class).__name__}"
        )
    if not inspect.isclass(func_or_class):
        if args:
            raise DeploymentError(
                f"backend {backend_tag!r} is a function, which is called for each request: it takes no arguments before"
            )
        return
    if "__call__" not in dir(func_or_class):
        raise DeploymentError(
            f"class {func_or_class.__name__} of backend {backend_tag!r} has no method __call__(request)"
        )
    try:
        inspect.signature(func_or_class).bind(*args)
    except TypeError as error:
        raise DeploymentError(f"backend {backend_tag!r}: {func_or_class.__name__}(...) {error}") from None
    except ValueError:
        return


def _check_batching(backend_tag: str, config: BackendConfig, accepts: bool) -> None:
    if config.max_batch_size is not None and not accepts:
        raise DeploymentError(
            f"backend {backend_tag!r} has max_batch_size={config.max_batch_size}, but its handler takes one request at "
            "a time: put @serve.accept_batch above it, and have it return a list of serve.context.batch_size results"
        )
