"""Names that settings have elsewhere, and settings that are elsewhere or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "host": "it belongs below http_options",
    "port": "it belongs below http_options",
    "import_path": "it belongs to an application: begin with `applications:`, a list",
    "route_prefix": "it belongs to an application, in the list below `applications:`",
    "runtime_env": "it belongs to an application, in the list below `applications:`",
    "deployments": "they belong to an application, in the list below `applications:`",
    "deployment_name": "it belongs to a deployment of an application, and is called `name` there",
    "target_capacity": "there is no share of all capacity: set num_replicas, or the bounds in autoscaling_config",
    "tracing_config": "tracing is set by the variables of OpenTelemetry (OTEL_...), where the proxies start",
    "controller_options": "the controller has no options",
}

NOT_IN_HTTP = {
    "location": "it is called proxy_location, and belongs to the top of the file",
    "middlewares": "middlewares are Python objects: give them to serve.start(http_options=...)",
    "num_cpus": "proxies hold no CPUs",
}

NOT_IN_APPLICATION = {
    "host": "it belongs below http_options, at the top of the file",
    "port": "it belongs below http_options, at the top of the file",
    "num_replicas": "it belongs to a deployment, in the list below `deployments:`",
    "autoscaling_config": "it belongs to a deployment, in the list below `deployments:`",
    "autoscaling_policy": "policies belong to deployments: autoscaling_config.policy",
    "external_scaler_enabled": "there is no other scaler",
}

NOT_IN_DEPLOYMENT = {
    "route_prefix": "it belongs to the application",
    "init_args": "arguments are given in the code, by bind(), or by `args` of the application",
    "init_kwargs": "arguments are given in the code, by bind(), or by `args` of the application",
    "version": "versions follow from the code and the settings",
    "request_router_config": "requests always go to the shorter of two queues, those of a model to where it is",
    "backpressure_config": "what is too much is answered with 503 and Retry-After: see max_queued_requests",
    "deployment_actors": "have replicas make it: kernel.remote(name=..., get_if_exists=True)(Class).remote()",
    "max_surge_percent": "new replicas start beside the old ones: rolling_update_percentage says how many at a time",
    "gang_scheduling_config": "give placement_group_bundles instead",
    "placement_group_bundle_label_selector": "bundles have no labels; actor_options can name a scheduling_strategy",
}


def autoscaling(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return autoscaling settings by the names used here. Raises ValueError for what is not the same here."""
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
