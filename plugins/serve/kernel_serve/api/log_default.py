"""The session's default `logging_config` of deployments, which `serve.start(logging_config=...)` sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import kernel
from kernel_serve.api.declared import with_options
from kernel_serve.api.graph import Change
from kernel_serve.settings import DeploymentSettings, LoggingConfig
from kernel_serve.values import NAMESPACE

_KEY = "logging_config"

Given = LoggingConfig | Mapping[str, Any]


def normal(given: Given, where: str) -> Mapping[str, Any]:
    """Return a `logging_config` as a mapping. Raises DeploymentError, which begins with `where`, for a bad one."""
    return with_options(DeploymentSettings(), {"logging_config": given}, where).logging_config


def store(config: Mapping[str, Any]) -> None:
    """Set the `logging_config` of deployments that are deployed from now on without one; {} for the defaults."""
    kernel.KeyValue(NAMESPACE).put(_KEY, json.dumps(dict(config)).encode())


def forget() -> None:
    """Remove the session's default."""
    kernel.KeyValue(NAMESPACE).delete(_KEY)


def with_default(change: Change, given: Given | None = None) -> Change:
    """Return a function that does what `change` does.

    It also completes `logging_config` from `given`, and then from the session's default.
    """
    data = kernel.KeyValue(NAMESPACE).get(_KEY)
    common = {**(json.loads(data) if data else {}), **(normal(given, "serve.run()") if given is not None else {})}
    if not common:
        return change

    def complete(deployment: str, settings: DeploymentSettings) -> DeploymentSettings:
        settings = change(deployment, settings)
        return replace(settings, logging_config={**common, **settings.logging_config})

    return complete
