"""The part of the table that is about Ray Serve, of all its generations.

Names and modules of `ray.serve` that have the same name in `kernel.serve` are not here: they are found by it.
"""

from __future__ import annotations


def _same(*names: str) -> dict[str, str]:
    return {name: f"kernel.serve:{name}" for name in names}


_SCHEMAS = (
    "DeploymentSchema", "HTTPOptionsSchema", "ServeApplicationSchema", "ServeDeploySchema", "gRPCOptionsSchema",
)  # fmt: skip
_DETAILS = (
    "ApplicationDetails", "DeploymentDetails", "ProxyDetails", "ReplicaDetails", "ServeActorDetails",
    "ServeInstanceDetails",
)  # fmt: skip
_DEPLOYMENTS = {
    name: f".serve.deployments:{name}" for name in ("Deployment", "deployment", "get_deployment", "list_deployments")
}
_DECLARING = {**_same("Application"), "Deployment": _DEPLOYMENTS["Deployment"]}
_GRPC_OPTIONS = {"gRPCOptions": "kernel.serve:GRPCOptions"}
_BACKENDS = ("create_backend", "delete_backend", "get_backend_config", "list_backends", "update_backend_config")
_CONFIG = {"BackendConfig": ".serve.first_generation.config:BackendConfig"}
_FIRST_GENERATION = {
    "accept_batch": ".serve.first_generation.accept_batch:accept_batch",
    **{name: f".serve.first_generation.backends:{name}" for name in _BACKENDS},
    **{name: f".serve.first_generation.endpoints:{name}" for name in ("create_endpoint", "init", "stat")},
}
_START = {"start": ".serve.start:start"}
_OLD_HANDLES = ("RayServeDeploymentHandle", "RayServeHandle", "RayServeSyncHandle")

SERVE_NAMES: dict[str, dict[str, str]] = {
    "ray.serve": {"*": "kernel.serve", **_FIRST_GENERATION, **_CONFIG, **_DEPLOYMENTS, **_GRPC_OPTIONS, **_START},
    "ray.serve.api": {
        **_DECLARING,
        **_DEPLOYMENTS,
        **_FIRST_GENERATION,
        **_START,
        **_same(
            "RunTarget",
            "delete",
            "delete_endpoint",
            "get_app_handle",
            "get_deployment_handle",
            "get_handle",
            "get_multiplexed_model_id",
            "get_replica_context",
            "ingress",
            "list_endpoints",
            "multiplexed",
            "run",
            "run_many",
            "set_traffic",
            "shutdown",
            "shutdown_async",
            "status",
        ),
    },
    "ray.serve.autoscaling_policy": {
        "default_autoscaling_policy": "kernel.serve.autoscaling:default_policy",
        "replica_queue_length_autoscaling_policy": "kernel.serve.autoscaling:default_policy",
    },
    "ray.serve.batching": _same("batch"),
    "ray.serve.config": {
        **_GRPC_OPTIONS,
        **_CONFIG,
        "AggregationFunction": ".serve.words:AggregationFunction",
        "AutoscalingConfig": ".serve.settings:AutoscalingConfig",
        "AutoscalingContext": ".serve.autoscaling_context:AutoscalingContext",
        "AutoscalingPolicy": ".serve.settings:AutoscalingPolicy",
        "HTTPOptions": ".serve.settings:HTTPOptions",
        "DeploymentMode": ".serve.words:ProxyLocation",
        "ProxyLocation": ".serve.words:ProxyLocation",
    },
    "ray.serve.deployment": _DECLARING,
    "ray.serve.exceptions": {
        **_same("BackPressureError", "DeploymentUnavailableError", "RequestCancelledError"),
        "RayServeException": "kernel.serve:ServeError",
        "ReplicaUnavailableError": "kernel.serve:DeploymentUnavailableError",
    },
    "ray.serve.grpc_util": {"RayServegRPCContext": "kernel.serve.replica.grpc_context:GRPCContext"},
    "ray.serve.handle": {
        **_same("DeploymentHandle", "DeploymentResponse", "DeploymentResponseGenerator"),
        **dict.fromkeys(_OLD_HANDLES, "kernel.serve:DeploymentHandle"),
    },
    "ray.serve.schema": {
        **_same("LoggingConfig"),
        **{name: f".serve.schema:{name}" for name in _SCHEMAS},
        **dict.fromkeys(_DETAILS, ".serve.schema:Details"),
        "ReplicaRank": "kernel.serve.context:ReplicaRank",
        "ApplicationStatus": ".serve.words:ApplicationStatus",
        "ApplicationStatusOverview": "kernel.serve.api.status_types:Facts",
        "DeploymentStatus": ".serve.words:DeploymentStatus",
        "DeploymentStatusOverview": "kernel.serve.api.status_types:Facts",
        "EncodingType": ".serve.words:EncodingType",
        "ProxyStatus": ".serve.words:ProxyStatus",
        "ServeStatus": "kernel.serve.api.status_types:Facts",
    },
}

_GANGS = "give a replica placement_group_bundles for what must start together"

SERVE_REFUSED: dict[str, str] = {
    "ray.serve.autoscaling_policy.PrometheusQueryMixin": "ask Prometheus in a policy of your own, beside its loop",
    "ray.serve.config.BackpressureConfig": "what is too much is answered with 503 and Retry-After",
    "ray.serve.config.ControllerOptions": "the controller has no options",
    "ray.serve.config.DeploymentActorConfig": "have replicas call kernel.remote(name=..., get_if_exists=True)",
    "ray.serve.config.GangPlacementStrategy": _GANGS,
    "ray.serve.config.GangRuntimeFailurePolicy": _GANGS,
    "ray.serve.config.GangSchedulingConfig": _GANGS,
    "ray.serve.config.RequestRouterConfig": "requests go to the less busy of two replicas, near ones first",
    "ray.serve.exceptions.gRPCStatusError": "set the code by the gRPC context that the method gets",
    "ray.serve.grpc_util.gRPCInputStream": "streams of a client are asynchronous iterators of messages",
    "ray.serve.handle.DeploymentBroadcastResponse": "a handle calls one replica; what all must hear is user_config",
    "ray.serve.schema.TracingConfig": "say serve.start(tracing=...); docs/serve-observing.md of kernel shows how",
}

SERVE_MODULES_REFUSED: dict[str, str] = {
    "ray.serve.dag": "bind deployments to each other, and call them by handles; see kernel.serve",
    "ray.serve.drivers": "the deployment that is bound last takes the requests, and calls the others by handles",
    "ray.serve.experimental": "requests go to the less busy of two replicas, near ones first",
    "ray.serve.gang": _GANGS,
    "ray.serve.generated": "there is no protocol of its own; a program's own services are named in GRPCOptions",
    "ray.serve.gradio_integrations": "give @serve.ingress the ASGI application that gradio.routes.App makes",
    "ray.serve.http_adapters": "a handler gets Starlette's request: await request.json(), await request.body()",
    "ray.serve.llm": "it has no counterpart; kernel.serve.examples.text_stream shows how a model streams its tokens",
    "ray.serve.request_router": "requests go to the less busy of two replicas, near ones first",
    "ray.serve.task_consumer": "it has no counterpart; have an actor take tasks from kernel.parallel's Queue",
    "ray.serve.utils": "opentelemetry.context.get_current() is what get_trace_context() returned",
}
