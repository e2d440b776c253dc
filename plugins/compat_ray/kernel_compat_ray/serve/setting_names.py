"""Ray Serve's names for settings, of all its releases, and settings that are elsewhere or not available.

kernel-serve reads configuration files with them: `SETTING_NAMES` is an entry point of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.serve.config.setting_names import OWN, SettingNames, combined
from kernel.serve.errors import DeploymentError

APPLICATION = {"logging": "logging_config"}

DEPLOYMENT = {
    "ray_actor_options": "actor_options",
    "autoscaling": "autoscaling_config",
    "max_concurrent_queries": "max_ongoing_requests",
}

AUTOSCALING = {
    "target_num_ongoing_requests_per_replica": "target_ongoing_requests",
    "target_num_ongoing_requests": "target_ongoing_requests",
    "upscale_smoothing_factor": "upscaling_factor",
    "downscale_smoothing_factor": "downscaling_factor",
}

ENDPOINT = {"route_prefix": "prefix", "route": "prefix", "traffic": "targets", "shadow": "shadows"}

HTTP = {
    "num_proxies": "proxies_per_node",
    "keep_alive_timeout": "keep_alive_timeout_s",
    "request_timeout": "request_timeout_s",
}

NOT_IN_FILE = {
    "deployment_name": "it belongs to a deployment of an application, and is called `name` there",
    "target_capacity": "there is no share of all capacity: set num_replicas, or the bounds in autoscaling_config",
    "tracing_config": "tracing is set by the variables of OpenTelemetry (OTEL_...), where the proxies start",
    "controller_options": "the controller has no options",
}

NOT_IN_HTTP = {"num_cpus": "proxies hold no CPUs"}

NOT_IN_APPLICATION = {
    "autoscaling_policy": "policies belong to deployments: autoscaling_config.policy",
    "external_scaler_enabled": "there is no other scaler",
}

NOT_IN_DEPLOYMENT = {
    "request_router_config": "requests always go to the shorter of two queues, those of a model to where it is",
    "backpressure_config": "what is too much is answered with 503 and Retry-After: see max_queued_requests",
    "deployment_actors": "have replicas make it: kernel.remote(name=..., get_if_exists=True)(Class).remote()",
    "max_surge_percent": "new replicas start beside the old ones: rolling_update_percentage says how many at a time",
    "gang_scheduling_config": "give placement_group_bundles instead",
    "placement_group_bundle_label_selector": "bundles have no labels; actor_options can name a scheduling_strategy",
}
_IN_PYTHON = {**OWN.refused_in("deployment"), **NOT_IN_DEPLOYMENT}


def deployment_options(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return options of a deployment by kernel's names.

    An option that kernel does not have is left out if it is None. Raises DeploymentError, which begins with `what`, if
    it has another value, and for autoscaling that kernel can't do in the same way.
    """
    found = {DEPLOYMENT.get(name, name): value for name, value in given.items()}
    for name, reason in _IN_PYTHON.items():
        if name in _OPTIONS:
            continue
        if found.pop(name, None) is not None:
            raise DeploymentError(f"{what}: there is no setting {name!r}: {reason}")
    scaling = found.get("autoscaling_config")
    if isinstance(scaling, Mapping):
        try:
            found["autoscaling_config"] = autoscaling(scaling)
        except ValueError as error:
            raise DeploymentError(f"autoscaling_config: {error}") from None
    return found


_OPTIONS = ("route_prefix", "version")
"""Options of a deployment in Python whose place in a file is elsewhere."""


def autoscaling(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of autoscaling by kernel's names. Raises ValueError for what kernel can't do in the same way."""
    said = {name: value for name, value in given.items() if value is not None or name in _MAY_BE_NONE}
    found = {AUTOSCALING.get(name, name): value for name, value in said.items()}
    if len(found) < len(said):
        twice = sorted(name for name in said if name in AUTOSCALING or name in AUTOSCALING.values())
        raise ValueError(f"a setting is there twice, by two of its names: {', '.join(twice)}")
    if "smoothing_factor" in found:
        factor = found.pop("smoothing_factor")
        found.setdefault("upscaling_factor", factor)
        found.setdefault("downscaling_factor", factor)
    if found.pop("aggregation_function", "mean") != "mean":
        raise ValueError("aggregation_function: numbers are always looked at as means")
    policy = found.get("policy")
    if isinstance(policy, Mapping):
        found.pop("policy")
        rest = dict(policy)
        function = rest.pop("policy_function", rest.pop("name", None))
        arguments = rest.pop("policy_kwargs", {})
        if rest:
            raise ValueError(f"policy: there are policy_function and policy_kwargs, not {', '.join(map(str, rest))}")
        if function is not None and not str(function).endswith(_DEFAULT_POLICIES):
            found["policy"] = function
        if arguments:
            found["policy_arguments"] = arguments
    return found


_DEFAULT_POLICIES = (":default_autoscaling_policy", ":replica_queue_length_autoscaling_policy")
_MAY_BE_NONE = ("initial_replicas", "downscale_to_zero_delay_s", "policy")

SETTING_NAMES = SettingNames(
    aliases={
        "application": APPLICATION,
        "deployment": DEPLOYMENT,
        "autoscaling_config": AUTOSCALING,
        "endpoint": ENDPOINT,
        "http_options": HTTP,
    },
    refused={
        "file": NOT_IN_FILE,
        "http_options": NOT_IN_HTTP,
        "application": NOT_IN_APPLICATION,
        "deployment": NOT_IN_DEPLOYMENT,
    },
    autoscaling_names=("smoothing_factor", "aggregation_function"),
    autoscaling=autoscaling,
)
"""Names in Ray Serve's configuration files that kernel's do not have."""
ALL_NAMES = combined([OWN, SETTING_NAMES])
"""Kernel's names and Ray Serve's."""
