"""Choose the deployment that answers a gRPC call: that of the application in the call's metadata."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from kernel_serve.errors import NotServingError
from kernel_serve.traffic.endpoint_table import ServedEndpoint
from kernel_serve.values import Endpoint

APPLICATION = "application"
"""The key of the application's name in the metadata."""


class GRPCTarget(NamedTuple):
    """Holds the key of the deployment of a call, and the keys of those that get a copy."""

    target: str
    shadows: Sequence[str] = ()


class Targets:
    """Finds the target of a call among endpoints, by their names."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random or Random()
        self._endpoints: Sequence[Endpoint] = ()
        self._served: dict[str, ServedEndpoint] = {}
        self._default: ServedEndpoint | None = None

    def learn(self, endpoints: Sequence[Endpoint]) -> None:
        """Replace the endpoints."""
        if endpoints is self._endpoints:
            return
        before, self._endpoints, self._served = self._served, endpoints, {}
        for endpoint in endpoints:
            served = before.get(endpoint.name)
            if served is None or served.endpoint != endpoint:
                served = ServedEndpoint(endpoint, self._random)
            self._served[endpoint.name] = served
        # endpoints without a route do not count beside one with a route: they may be parts of a split, or for handles
        routed = [served for served in self._served.values() if served.endpoint.prefix]
        candidates = routed or list(self._served.values())
        self._default = candidates[0] if len(candidates) == 1 else None

    def find(self, application: str, metadata: Sequence[tuple[str, Any]], peer: str) -> GRPCTarget:
        """Return where a call goes whose metadata name an application; `application` is "" if they name none.

        Without a name it goes to the only application with a route, or, if none has a route, to the only one. Raises
        NotServingError for an unknown application.
        """
        served = self._served.get(application) if application else self._default
        if served is None:
            raise NotServingError(self._unknown(application))
        headers = [(key.encode(), value if isinstance(value, bytes) else value.encode()) for key, value in metadata]
        return GRPCTarget(served.target({"headers": headers, "client": (_address(peer), 0)}), served.shadows())

    def _unknown(self, application: str) -> str:
        if not self._served:
            return "no application takes calls from outside yet: deploy one with serve.run"
        names = ", ".join(sorted(self._served))
        asked = f"there is no application {application!r}" if application else "the call names no application"
        return f"{asked}: give one of these in the metadata as {APPLICATION!r}: {names}"


def _address(peer: str) -> str:
    """Return the address in gRPC's name of a peer, such as `ipv4:127.0.0.1:4711`."""
    return peer.partition(":")[2].rpartition(":")[0]
