"""The parts that all connections of a proxy share: table of endpoints, router, options, and metrics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from kernel_serve import tracing
from kernel_serve.errors import ServeError
from kernel_serve.logs.access import AccessLog
from kernel_serve.metrics.gathering import Gatherer
from kernel_serve.metrics.proxy import WEBSOCKET, ProxyMetrics
from kernel_serve.metrics.registry import REGISTRY
from kernel_serve.proxy.request_ids import HEADER, RequestIds
from kernel_serve.proxy.shadows import Shadows
from kernel_serve.routing.router import Router, find_controller
from kernel_serve.settings import HTTPOptions
from kernel_serve.traffic.endpoint_table import MethodNotAllowed
from kernel_spec.metric_text import exposition

if TYPE_CHECKING:
    from kernel_serve.proxy.grpc_call import EndedCall

_MODEL_ID = b"serve_multiplexed_model_id"

Refusal = tuple[int, str, list[tuple[bytes, bytes]]]


class RoutingDecision(NamedTuple):
    """Holds the deployment of a request, or the refusal with which it is answered."""

    refusal: Refusal | None
    id: str
    target: str = ""
    meta: dict[str, Any] = {}  # noqa: RUF012
    shadows: Any = ()
    span: Any = None


class ProxyService:
    """Decides where requests go. It follows the controller's news by the router."""

    def __init__(
        self,
        router: Router,
        options: HTTPOptions,
        proxy: str = "",
        access_log: AccessLog | None = None,
        by_name: bool = False,
    ) -> None:
        """Make the service of a proxy.

        `by_name`: there are also requests for endpoints without a route, by their names (gRPC).
        """
        self.router = router
        self.options = options
        self._by_name = by_name
        self._access_log = access_log
        self.metrics = ProxyMetrics(REGISTRY, proxy)
        self.endpoint_table = router.endpoint_table
        self.shadows = Shadows(router)
        self._gatherer = Gatherer(find_controller, REGISTRY.snapshot)
        self._heard = asyncio.Event()
        self._ids = RequestIds()
        router.listen(self._learn)

    def _learn(self) -> None:
        endpoints = self.router.endpoints
        self.endpoint_table = self.router.endpoint_table
        for endpoint in endpoints:
            if endpoint.prefix or self._by_name:  # others are for handles, which have their own links
                for target in (*endpoint.targets, *endpoint.shadows):
                    self.router.dispatcher(target.deployment)
        self.metrics.keep({target.deployment for endpoint in endpoints for target in endpoint.targets})
        self._heard.set()

    async def ready(self, timeout: float = 30.0) -> None:
        """Wait until the controller has published the endpoints. Raises ServeError after `timeout` seconds."""
        try:
            await asyncio.wait_for(self._heard.wait(), timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise ServeError(f"the controller did not send the proxy the endpoints within {timeout:g} s") from None

    def decide(self, scope: dict[str, Any], id: str = "") -> RoutingDecision:
        """Return where the request with this ASGI scope goes, with the meta for the replica.

        Its id is the client's own, else `id`, else a new one.
        """
        model = ""
        for name, value in scope["headers"]:
            if name == HEADER:
                id = value.decode("latin-1")
            elif name == _MODEL_ID:
                model = value.decode("latin-1")
        id = id or self._ids.new()
        path = scope["path"]
        method = scope.get("method", "GET")
        served = self.endpoint_table.find(path, method)
        if served is None:
            return RoutingDecision((404, f"nothing is served at {path!r}: {self.endpoint_table.known}", []), id)
        if isinstance(served, MethodNotAllowed):
            text = f"{method} is not among the methods here: {served.allow}"
            return RoutingDecision((405, text, [(b"allow", served.allow.encode())]), id)
        if not served.answers:
            text = (
                f"endpoint {served.endpoint.name!r} has nothing to answer yet: give it traffic with serve.set_traffic"
            )
            return RoutingDecision((503, text, [(b"retry-after", b"1")]), id)
        kept = dict(scope)
        kind = kept.pop("type")
        if root := self.options.root_path:
            kept["path"] = root + path
            kept["raw_path"] = root.encode() + scope["raw_path"]
        kept["root_path"] = root + served.prefix
        meta = {
            "type": kind,
            "id": id,
            "route": served.endpoint.prefix,
            "scope": kept,
        }
        if model:
            meta["model"] = model
        target = served.target(scope)
        span = None if tracing.active is None else tracing.active.arrived(scope, served.endpoint.prefix, target, meta)
        return RoutingDecision(None, id, target, meta, served.shadows(), span)

    def ended(
        self,
        target: str,
        prefix: str,
        scope: dict[str, Any],
        status: int,
        milliseconds: float,
        id: str,
        size: int | None = None,
        replica: str = "",
        span: Any = None,
    ) -> None:
        """Count a finished request, and log it. `size` is that of the answer's body, in bytes."""
        self.metrics.ongoing.value -= 1
        method = scope["method"]
        self.metrics.ended(target, prefix, method, status, milliseconds)
        if span is not None and tracing.active is not None:
            tracing.active.answered(span, status, replica)
        if self._access_log is not None:
            protocol = "websocket" if method == WEBSOCKET else "HTTP/" + scope["http_version"]
            self._access_log.note(
                (
                    time.time(), id, method, scope["path"], prefix, status, milliseconds, size, scope["client"],
                    target, replica, protocol,
                )
            )  # fmt: skip

    def grpc_ended(self, call: EndedCall) -> None:
        """Count a finished gRPC call, and log it; its status is the number that gRPC has for it."""
        self.metrics.grpc_ended(call.target, call.path, call.code.name, call.milliseconds)
        if call.span is not None and tracing.active is not None:
            tracing.active.answered_by_grpc(call.span, call.code.value[0], call.replica)
        if self._access_log is not None:
            host, _, port = call.peer.removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")
            client = (host, int(port)) if port.isdigit() else None
            self._access_log.note(
                (
                    time.time(), call.id, "GRPC", call.path, "", call.code.value[0], call.milliseconds, None, client,
                    call.target, call.replica, "grpc",
                )
            )  # fmt: skip

    async def metrics_text(self) -> str:
        """Return the metrics of all of Serve, for Prometheus."""
        return exposition(await self._gatherer.gather())
