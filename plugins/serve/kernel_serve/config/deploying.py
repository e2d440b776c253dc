"""Brings a configuration about in the session, whoever asks: the command line or the REST API."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import kernel
from kernel_serve.api import run as api
from kernel_serve.api.controller_calls import answer_to, ask
from kernel_serve.api.graph import unchanged
from kernel_serve.api.log_default import with_default
from kernel_serve.api.runtime_environments import RuntimeEnvironments
from kernel_serve.config.code_paths import services_version
from kernel_serve.config.kept import keep, kept
from kernel_serve.config.specs import build_application
from kernel_serve.config.steps import steps
from kernel_serve.config.values import ApplicationConfig, ServeConfig
from kernel_serve.values import ApplicationSpec

Build = Callable[[ServeConfig], Sequence[ApplicationSpec]]


def deploy_config(config: ServeConfig, build: Build, directory: str | None = None) -> Sequence[str]:
    """Deploy a configuration, and return the names of its applications as soon as the controller has taken it.

    All applications are imported first: nothing is changed when one can't be. Serve is started if it does not run; its
    proxies import the services of gRPC from `directory`, too, unless the configuration says another.
    Raises DeploymentError, and DeployFailedError with the traceback when an application's code raises.
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
    """Return what imports applications in this process, from `directory`; those with a `runtime_env`, in tasks.

    It starts a session if there is none: what they run in is sent there.
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
    """Import each application in a task, with its own `runtime_env`: this process stays free of users' code."""
    tasks = [_in_task(each, config.logging_config, None) for each in config.applications]
    return answer_to(tasks)  # type: ignore[no-any-return]


def _in_task(config: ApplicationConfig, logging_config: Mapping[str, Any], directory: str | None) -> Any:
    config = _packed(config)
    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0}
    if config.runtime_env:
        options["runtime_env"] = config.runtime_env
    return kernel.remote(**options)(_build).remote(config, logging_config, directory)


def _build(config: ApplicationConfig, logging_config: Mapping[str, Any], directory: str | None) -> ApplicationSpec:
    """Import an application here; its replicas run in what this runs in."""
    return build_application(config, logging_config, directory, RuntimeEnvironments(with_default(unchanged)))


def _packed(config: ApplicationConfig) -> ApplicationConfig:
    """Return the configuration of an application whose `runtime_env`, and those of its deployments, are packed here.

    Paths mean what they mean to who deploys, and not to the task that imports the code.
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
    """Return the directory of the code, unless the code travels."""
    return None if config.runtime_env.get("working_dir") else directory
