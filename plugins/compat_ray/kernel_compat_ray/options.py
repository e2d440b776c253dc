"""Translate Ray's options into kernel's: mappings in, mappings out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import kernel
from kernel_compat_ray.deprecation import warn_ignored, warn_renamed
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.labels import to_kernel
from kernel_compat_ray.option_names import OPTIONS_IGNORED, OPTIONS_REFUSED, OPTIONS_RENAMED, OPTIONS_TRANSLATED

_GROUP_OPTIONS = ("placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks")
_TAKE_BACK = "!*"  # Goes after the lines of every .gitignore.


def translate(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for kernel. Old spellings warn; NotSupportedError says what can't be honoured, and why."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name in OPTIONS_REFUSED:
            if value not in (None, 0, ""):
                raise NotSupportedError(f"the option {name} is not supported: {OPTIONS_REFUSED[name]}")
        elif name in OPTIONS_RENAMED:
            warn_renamed(name, OPTIONS_RENAMED[name])
            given[OPTIONS_RENAMED[name]] = value
        elif name in OPTIONS_TRANSLATED:
            given[OPTIONS_TRANSLATED[name]] = value if value != -1 else 0
        elif name not in OPTIONS_IGNORED:
            given[name] = value
    _lifetime(given)
    _strategy(given)
    _environment(given)
    return given


def _lifetime(given: dict[str, Any]) -> None:
    if "detached" in given:
        warn_renamed("detached=True", 'lifetime="detached"')
        if given.pop("detached"):
            given["lifetime"] = "detached"


def _strategy(given: dict[str, Any]) -> None:
    """Turn a placement group, given as an option of its own, into a strategy, and names of labels into kernel's."""
    group, index, capture = (
        given.pop(name, default) for name, default in zip(_GROUP_OPTIONS, (None, -1, None), strict=True)
    )
    if group not in (None, "default"):
        warn_renamed("placement_group=", "scheduling_strategy=PlacementGroupSchedulingStrategy(...)")
        given["scheduling_strategy"] = kernel.PlacementGroupSchedulingStrategy(group, index, bool(capture))
    if "label_selector" in given:
        given["label_selector"] = to_kernel(given["label_selector"])
    if isinstance(given.get("fallback_strategy"), list):
        given["fallback_strategy"] = [to_kernel(choice, inside=True) for choice in given["fallback_strategy"]]


def _environment(given: dict[str, Any]) -> None:
    variables = given.pop("override_environment_variables", None)
    if variables:
        warn_renamed("override_environment_variables=", 'runtime_env={"env_vars": ...}')
        environment = dict(given.get("runtime_env") or {})
        given["runtime_env"] = {**environment, "env_vars": {**environment.get("env_vars", {}), **variables}}
    if given.get("runtime_env"):
        given["runtime_env"] = plain_environment(given["runtime_env"])


def plain_environment(environment: Any) -> Any:
    """Return a runtime_env without the fields that have no effect here. Other values are left for kernel to check."""
    if not isinstance(environment, Mapping):
        return environment
    for packages in ("pip", "uv"):
        if environment.get("conda") and environment.get(packages):
            raise ValueError(
                f"The '{packages}' field and 'conda' field of runtime_env cannot be specified at the same time: both "
                "choose the interpreter. Give the requirements of pip in 'conda': "
                "{'dependencies': [..., {'pip': [...]}]}"
            )
    config = environment.get("config")
    if config:
        warn_ignored('runtime_env["config"]', "environments are set up by the worker's node at once")
    kept = {name: value for name, value in environment.items() if name not in ("config", "_ray_commit") and value}
    if os.environ.get("RAY_RUNTIME_ENV_IGNORE_GITIGNORE") == "1" and ("working_dir" in kept or "py_modules" in kept):
        kept["excludes"] = [_TAKE_BACK, *kept.get("excludes", ())]
    return kept
