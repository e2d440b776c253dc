"""List endpoints, and get handles that call what answers there."""

from __future__ import annotations

from typing import Any

from kernel_serve.api import run as api
from kernel_serve.api.endpoint_handle import EndpointHandle
from kernel_serve.errors import NotServingError
from kernel_serve.names import missing


def list_endpoints() -> dict[str, dict[str, Any]]:
    """Return route, methods (empty for all), traffic and shadows of each endpoint, by name."""
    return {
        each["name"]: {
            "route": each["route_prefix"] or None,
            "methods": each["methods"],
            "traffic": {_short(key): weight for key, weight in each["targets"].items()},
            "shadows": {_short(key): weight for key, weight in each["shadows"].items()},
        }
        for each in api.status()["endpoints"]
    }


def get_handle(endpoint_name: str, missing_ok: bool = False) -> EndpointHandle:
    """Return a handle to an endpoint: each call goes to one of its deployments, by the weights at that time.

    Raises NotServingError for an unknown endpoint, unless `missing_ok`.
    """
    if not missing_ok:
        known = [each["name"] for each in api.status()["endpoints"]]
        if endpoint_name not in known:
            raise NotServingError(missing("endpoint", endpoint_name, known))
    return EndpointHandle(endpoint_name)


def _short(key: str) -> str:
    """Return a deployment's key as a user writes it: the application alone where both have one name."""
    application, _, deployment = key.rpartition("#")
    return application if application == deployment else key
