"""The `runtime_env` of replicas: that of the program that deploys, with the deployment's own on top.

Both are packed and sent by the program, before the controller gets the deployments: they mean the same on every
machine, for as long as the session lasts, and replicas are replaced when a file of theirs has changed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import kernel
from kernel_serve.api.graph import Change, unchanged
from kernel_serve.settings import DeploymentSettings
from kernel_serve.values import ApplicationSpec
from kernel_spec.errors import RuntimeEnvError

Environment = Mapping[str, Any]


class RuntimeEnvironments:
    """Completes the settings of deployments that this program deploys now, after `change` has changed them."""

    def __init__(self, change: Change = unchanged) -> None:
        self._change = change
        self._program: Environment = kernel.get_runtime_context().runtime_env
        self._packed: dict[str, Environment] = {}

    def __call__(self, deployment: str, settings: DeploymentSettings) -> DeploymentSettings:
        """Return the settings of a deployment with its whole `runtime_env`.

        Raises RuntimeEnvError, which names the deployment, for a bad one.
        """
        settings = self._change(deployment, settings)
        options = settings.actor_options
        own = options.get("runtime_env") or {}
        try:
            packed = self._pack(own)
        except RuntimeEnvError as error:
            raise RuntimeEnvError(f"deployment {deployment}: {error}") from None
        whole = merged_environment(self._program, packed) if packed.get("inherit", True) else packed
        environment = {**whole, "inherit": False}  # The controller's own program may have another one.
        return replace(settings, actor_options={**options, "runtime_env": dict(sorted(environment.items()))})

    def _pack(self, own: Environment) -> Environment:
        """Return a packed environment. Deployments with the same environment, which many have, get it packed once."""
        if not own:
            return own
        key = repr(own)
        if key not in self._packed:
            self._packed[key] = kernel.pack_runtime_env(own)
        return self._packed[key]


def merged_environment(outer: Environment, inner: Environment) -> dict[str, Any]:
    """Return the merged environment: fields of `inner` replace those of `outer`, and variables of both are kept."""
    merged = {**outer, **inner}
    variables = {**(outer.get("env_vars") or {}), **(inner.get("env_vars") or {})}
    if variables:
        merged["env_vars"] = dict(sorted(variables.items()))
    return merged


def on_the_path(spec: ApplicationSpec) -> ApplicationSpec:
    """Return an application whose replicas find modules where this program does.

    Otherwise they have the path of the program that started Serve, which may be another one. Where a `working_dir`
    travels, modules are found there, and what was deployed before stays as it is.
    """
    path = tuple(os.path.abspath(each) for each in sys.path if not _is_installed(os.path.abspath(each)))

    def complete(settings: DeploymentSettings) -> bool:
        return "working_dir" in settings.actor_options.get("runtime_env", {})

    deployments = (
        each if each.path or complete(each.settings) else replace(each, path=path) for each in spec.deployments
    )
    return replace(spec, deployments=tuple(deployments))


def _is_installed(directory: str) -> bool:
    """Return whether a directory belongs to this Python installation, which every worker has."""
    own = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"))
    return any(os.path.join(directory, "").startswith(os.path.join(each, "")) for each in own)
