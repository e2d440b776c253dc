"""Handles of endpoints: calls are split among deployments as requests from outside are."""

from __future__ import annotations

from typing import Any

from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.routing.endpoint_calls import EndpointCall


class EndpointHandle(DeploymentHandle):
    """Calls one of an endpoint's deployments, by their weights at the time of the call."""

    def __init__(self, endpoint: str, **options: Any) -> None:
        super().__init__(endpoint, "", **options)
        self.endpoint = endpoint

    def _like(self, **options: Any) -> EndpointHandle:
        return EndpointHandle(self.endpoint, **options)

    def _call(self, meta: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> EndpointCall:
        return EndpointCall(self.endpoint, meta, args, kwargs, self._timeout, self._retry)

    def __repr__(self) -> str:
        return f"EndpointHandle({self.endpoint!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.endpoint, self._options())


def _rebuild(endpoint: str, options: dict[str, Any]) -> EndpointHandle:
    return EndpointHandle(endpoint, **options)
