"""What replicas run in: the `runtime_env` of the program that deploys, and on top of it the deployment's own.

Both are packed and sent where the program runs, before the controller hears of them: they mean the same on every
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
        """Return the settings of a deployment with all of its `runtime_env`.

        Raises RuntimeEnvError, which names it, for one that can't be.
        """
        settings = self._change(deployment, settings)
        options = settings.actor_options
        own = options.get("runtime_env") or {}
        try:
            packed = self._pack(own)
        except RuntimeEnvError as error:
            raise RuntimeEnvError(f"deployment {deployment}: {error}") from None
        whole = merged_environment(self._program, packed) if packed.get("inherit", True) else packed
        environment = {**whole, "inherit": False}  # whoever started the controller has nothing to do with it
        return replace(settings, actor_options={**options, "runtime_env": dict(sorted(environment.items()))})

    def _pack(self, own: Environment) -> Environment:
        """Return a packed environment; deployments that have the same one often have it packed once."""
        if not own:
            return own
        key = repr(own)
        if key not in self._packed:
            self._packed[key] = kernel.pack_runtime_env(own)
        return self._packed[key]


def merged_environment(outer: Environment, inner: Environment) -> dict[str, Any]:
    """Return what the inner one says, the outer one where that says nothing, and the variables of both."""
    merged = {**outer, **inner}
    variables = {**(outer.get("env_vars") or {}), **(inner.get("env_vars") or {})}
    if variables:
        merged["env_vars"] = dict(sorted(variables.items()))
    return merged


def on_the_path(spec: ApplicationSpec) -> ApplicationSpec:
    """Return an application whose replicas find modules where this program does.

    They have the path of the program that started Serve, which may be another. Where a `working_dir` travels, that is
    the place of their modules, and what was deployed before stays as it is.
    """
    path = tuple(os.path.abspath(each) for each in sys.path if not _is_installed(os.path.abspath(each)))

    def complete(settings: DeploymentSettings) -> bool:
        return "working_dir" in settings.actor_options.get("runtime_env", {})

    deployments = (
        each if each.path or complete(each.settings) else replace(each, path=path) for each in spec.deployments
    )
    return replace(spec, deployments=tuple(deployments))


def _is_installed(directory: str) -> bool:
    """Return whether a directory is a part of this Python: every worker has that."""
    own = (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"))
    return any(os.path.join(directory, "").startswith(os.path.join(each, "")) for each in own)
