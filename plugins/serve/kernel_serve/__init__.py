"""From a Python class to a fast, elastic HTTP and gRPC service, on kernel.

Each name is in a file of its own, and is loaded when it is first used.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "api.declared": ("Application", "Deployment"),
    "api.deployment": ("deployment",),
    "api.handle": ("DeploymentHandle",),
    "api.ingress": ("ingress",),
    "api.endpoint_handle": ("EndpointHandle",),
    "api.endpoints": ("get_handle", "list_endpoints"),
    "api.responses": ("DeploymentResponse", "DeploymentResponseGenerator"),
    "api.run": (
        "delete",
        "get_app_handle",
        "get_deployment_handle",
        "run",
        "shutdown",
        "shutdown_async",
        "start",
        "status",
    ),
    "api.run_many": ("RunTarget", "run_many"),
    "api.traffic": ("delete_endpoint", "set_traffic"),
    "batching.decorator": ("batch",),
    "context": ("ReplicaContext", "get_multiplexed_model_id", "get_replica_context"),
    "multiplex.decorator": ("multiplexed",),
    "errors": (
        "BackPressureError",
        "DeployFailedError",
        "DeploymentError",
        "DeploymentUnavailableError",
        "ReplicasDiedError",
        "MetricError",
        "NotServingError",
        "RequestCancelledError",
        "RequestError",
        "RequestTimeoutError",
        "ServeError",
        "UserCodeError",
    ),
    "metrics": (),
    "settings": ("AutoscalingConfig", "GRPCOptions", "HTTPOptions", "LoggingConfig"),
}
_HOMES = {name: f"kernel_serve.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import what is exported here, or a module of this package, when it is first used."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"kernel_serve.{name}")
    if name not in _HOMES:
        from kernel_serve.names import nearest

        hint = "" if name.startswith("_") else nearest(name, __all__)
        raise AttributeError(f"module 'kernel_serve' has no attribute {name!r}{hint}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *__all__])
