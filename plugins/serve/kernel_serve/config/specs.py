"""From a configuration to what the controller is told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from kernel_serve.api.declared import Application, with_options
from kernel_serve.api.graph import Change, flatten, unchanged
from kernel_serve.api.runtime_environments import merged_environment
from kernel_serve.config.code_paths import source_digest, source_root, with_path
from kernel_serve.config.importing import import_application
from kernel_serve.config.users_errors import told
from kernel_serve.config.values import ApplicationConfig, EndpointConfig, TargetConfig
from kernel_serve.errors import DeployFailedError, DeploymentError, ServeError
from kernel_serve.names import missing
from kernel_serve.settings import DeploymentSettings
from kernel_serve.values import ApplicationSpec, Endpoint, Target, key_of
from kernel_spec.nearest import nearest


def build_application(
    config: ApplicationConfig,
    logging_config: Mapping[str, Any],
    directory: str | None = None,
    complete: Change = unchanged,
) -> ApplicationSpec:
    """Import an application and return its specification, with the settings of its configuration.

    `directory` is where its code lies, if replicas can't know that by themselves. `complete(deployment, settings)` has
    the last word on settings. Raises DeploymentError, and DeployFailedError with the traceback when the application's
    code raises.
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
    """Return the specification of an application whose settings the configuration, and then `complete`, may replace."""
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
    """Return what differs when the code of an application does: its sources, its arguments, where it is imported."""
    sources = source_digest(directory or source_root(config.import_path))
    args = json.dumps(config.args, sort_keys=True, default=repr)
    return hashlib.sha256(f"{config.import_path} {args} {sources}".encode()).hexdigest()[:16]


def endpoint_of(config: EndpointConfig, ingresses: Mapping[str, str]) -> Endpoint:
    """Return an endpoint. `ingresses` is application to the name of its ingress. Raises DeploymentError."""
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
