"""Deploy a configuration in the session, for the command line and for the REST API.

Applications are imported and get the file's settings (`build_application`). `steps` are the calls of the controller
that follow. The session keeps the configuration that was deployed last (`keep`), to show it, and to find out what is
missing from the next one.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import kernel
from kernel_serve.api import run as api
from kernel_serve.api.controller_calls import answer_to, ask
from kernel_serve.api.declared import Application, with_options
from kernel_serve.api.graph import Change, flatten, unchanged
from kernel_serve.api.log_default import with_default
from kernel_serve.api.runtime_environments import RuntimeEnvironments, merged_environment
from kernel_serve.config.values import ApplicationConfig, EndpointConfig, ServeConfig, TargetConfig
from kernel_serve.errors import DeployFailedError, DeploymentError, ServeError
from kernel_serve.names import missing
from kernel_serve.settings import DeploymentSettings
from kernel_serve.users_code import (
    import_application,
    services_version,
    source_digest,
    source_root,
    told,
    with_path,
)
from kernel_serve.values import ApplicationSpec, Endpoint, Target, key_of
from kernel_spec.dataclass import dataclass
from kernel_spec.nearest import nearest

Build = Callable[[ServeConfig], Sequence[ApplicationSpec]]


def deploy_config(config: ServeConfig, build: Build, directory: str | None = None) -> Sequence[str]:
    """Deploy a configuration; return the names of its applications once the controller has taken it.

    All applications are imported first: if one can't be, nothing is changed. Serve is started if it does not run. Its
    proxies import the services of gRPC also from `directory`, unless the configuration names another one. Raises
    DeploymentError, and DeployFailedError with the traceback when an application's code raises.
    """
    specs = build(config)
    grpc = config.grpc_options
    if grpc is not None and grpc.app_dir is None and directory is not None:
        version = grpc.services_version or services_version(grpc, directory)
        grpc = replace(grpc, app_dir=directory, services_version=version)
    api.start(config.proxy_location, config.http_options, grpc)  # type: ignore[arg-type]
    for step in steps(config, specs, kept(), api.status()):
        ask(step.method, *step.arguments)
    keep(dict(config.data))
    return [spec.name for spec in specs]


def build_here(directory: str | None) -> Build:
    """Return a function that imports applications here, from `directory`, or in tasks if they have a `runtime_env`.

    It starts a session if there is none: the environments are sent there.
    """

    def build(config: ServeConfig) -> Sequence[ApplicationSpec]:
        if directory is not None and directory not in sys.path:
            sys.path.insert(0, directory)
        if not kernel.is_initialized():
            kernel.init()
        return [
            answer_to(_in_task(each, config.logging_config, _seen_from(each, directory)))
            if each.runtime_env
            else _build(_packed(each), config.logging_config, directory)
            for each in config.applications
        ]

    return build


def build_in_tasks(config: ServeConfig) -> Sequence[ApplicationSpec]:
    """Import each application in a task, with its own `runtime_env`: this process imports no code of users."""
    tasks = [_in_task(each, config.logging_config, None) for each in config.applications]
    return answer_to(tasks)  # type: ignore[no-any-return]


def _in_task(config: ApplicationConfig, logging_config: Mapping[str, Any], directory: str | None) -> Any:
    config = _packed(config)
    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0}
    if config.runtime_env:
        options["runtime_env"] = config.runtime_env
    return kernel.remote(**options)(_build).remote(config, logging_config, directory)


def _build(config: ApplicationConfig, logging_config: Mapping[str, Any], directory: str | None) -> ApplicationSpec:
    """Import an application in this process; its replicas run in the same environment."""
    return build_application(config, logging_config, directory, RuntimeEnvironments(with_default(unchanged)))


def _packed(config: ApplicationConfig) -> ApplicationConfig:
    """Return the configuration of an application with its `runtime_env`, and those of its deployments, packed here.

    Paths are meant as the program that deploys sees them; in the task that imports the code they may not exist.
    """
    deployments = tuple(replace(each, options=_packed_options(each.options)) for each in config.deployments)
    environment = kernel.pack_runtime_env(config.runtime_env) if config.runtime_env else {}
    return replace(config, runtime_env=environment, deployments=deployments)


def _packed_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    own = options.get("actor_options") or {}
    if not own.get("runtime_env"):
        return options
    return {**options, "actor_options": {**own, "runtime_env": kernel.pack_runtime_env(own["runtime_env"])}}


def _seen_from(config: ApplicationConfig, directory: str | None) -> str | None:
    """Return the directory of the code, None if the code travels."""
    return None if config.runtime_env.get("working_dir") else directory


def build_application(
    config: ApplicationConfig,
    logging_config: Mapping[str, Any],
    directory: str | None = None,
    complete: Change = unchanged,
) -> ApplicationSpec:
    """Import an application and return its specification, with the settings of its configuration.

    `directory` is where its code is, if replicas can't find it by themselves. `complete(deployment, settings)` may
    change settings last. Raises DeploymentError, and DeployFailedError with the traceback when the application's code
    raises.
    """
    try:
        application = import_application(config.import_path, config.args)
    except DeploymentError as error:
        raise DeploymentError(f"{config.where}: {error}" if config.where else str(error)) from None
    except ServeError:
        raise
    except Exception as error:
        where = config.where or f"application {config.name}"
        raise DeployFailedError(f"{where}: {config.import_path} can't be imported:\n{told(error)}") from error
    spec = specification(application, config, logging_config, directory, complete)
    return with_path(spec, directory) if directory is not None else spec


def specification(
    application: Application,
    config: ApplicationConfig,
    logging_config: Mapping[str, Any],
    directory: str | None = None,
    complete: Change = unchanged,
) -> ApplicationSpec:
    """Return the specification of an application. The configuration, and then `complete`, may replace settings."""
    overrides = {each.name: each for each in config.deployments}

    def change(name: str, settings: DeploymentSettings) -> DeploymentSettings:
        override = overrides.get(name)
        options = dict(override.options) if override is not None else {}
        own_logging = options.get("logging_config") or settings.logging_config
        options["logging_config"] = {**logging_config, **config.logging_config, **own_logging}
        if config.runtime_env:
            own = dict(options.get("actor_options") or settings.actor_options)
            own["runtime_env"] = merged_environment(config.runtime_env, own.get("runtime_env") or {})
            options["actor_options"] = own
        where = override.where if override is not None else config.where or f"application {config.name}"
        return complete(name, with_options(settings, options, f"{where}: deployment {name}"))

    version = code_version(config, directory)
    spec = flatten(application, config.name, config.route_prefix, change, version)
    known = [each.name for each in spec.deployments]
    for name, override in overrides.items():
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close!r}?" if close else f"there are: {', '.join(known)}"
            raise DeploymentError(f"{override.where}: application {config.name} has no deployment {name!r}; {hint}")
    return spec


def code_version(config: ApplicationConfig, directory: str | None) -> str:
    """Return a digest of the code of an application: of its sources, its arguments, and its import path."""
    sources = source_digest(directory or source_root(config.import_path))
    args = json.dumps(config.args, sort_keys=True, default=repr)
    return hashlib.sha256(f"{config.import_path} {args} {sources}".encode()).hexdigest()[:16]


def endpoint_of(config: EndpointConfig, ingresses: Mapping[str, str]) -> Endpoint:
    """Return an endpoint. `ingresses` maps applications to the names of their ingresses. Raises DeploymentError."""
    return Endpoint(
        name=config.name,
        prefix=config.prefix,
        targets=_targets(config.targets, ingresses),
        methods=config.methods,
        shadows=_targets(config.shadows, ingresses),
        sticky=config.sticky,
    )


def _targets(configs: Iterable[TargetConfig], ingresses: Mapping[str, str]) -> tuple[Target, ...]:
    targets = []
    for config in configs:
        if config.application not in ingresses:
            raise DeploymentError(f"{config.where}: {missing('application', config.application, ingresses)}")
        deployment = config.deployment or ingresses[config.application]
        targets.append(Target(key_of(config.application, deployment), config.weight))
    return tuple(targets)


@dataclass(frozen=True, slots=True)
class ConfigStep:
    """Describes a call of one of the controller's methods."""

    method: str
    arguments: tuple[Any, ...]


def steps(
    config: ServeConfig, specs: Sequence[ApplicationSpec], before: Mapping[str, Any] | None, status: Mapping[str, Any]
) -> list[ConfigStep]:
    """Return the calls that deploy a configuration. Raises DeploymentError for endpoints without applications.

    `before` is the `data` of the configuration before: what is in it and not in this one is deleted, and what was
    deployed otherwise stays. `status` is the controller's.
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


_KEY = "configuration"


def keep(data: dict[str, Any] | None) -> None:
    """Keep the `data` of a configuration in place of the one before; None removes it."""
    store = kernel.KeyValue("kernel_serve")
    if data is None:
        store.delete(_KEY)
    else:
        store.put(_KEY, json.dumps(data).encode())


def kept() -> dict[str, Any] | None:
    """Return the `data` of the configuration that was deployed last; None if there is none."""
    found = kernel.KeyValue("kernel_serve").get(_KEY)
    return None if found is None else json.loads(found)
