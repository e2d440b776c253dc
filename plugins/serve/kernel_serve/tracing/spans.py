"""The spans of a request: in the proxy, in the router's queue, in the replica, in user code, and of calls by handles.

From process to process goes a mapping of texts (`traceparent` and others), as `trace` in an exchange's meta.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from kernel_serve.context import replica_of_process
from kernel_serve.values import ends_of_key

_NAME = "kernel.serve"
_TAKEN = frozenset((b"traceparent", b"tracestate", b"baggage", b"b3", b"uber-trace-id"))
"""Headers that may name the trace of a request; the propagators of OpenTelemetry decide."""


class Tracing:
    """Makes spans with a provider of OpenTelemetry."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_NAME)

    def silent(self) -> Tracing:
        """Return one that makes no spans."""
        return Tracing(trace.NoOpTracerProvider())

    def arrived(self, scope: Mapping[str, Any], route: str, target: str, meta: dict[str, Any]) -> Any:
        """Begin the span of a request from outside, and add it to `meta` as the parent of what follows."""
        headers = {name: value for name, value in scope["headers"] if name in _TAKEN}
        given = {name.decode(): value.decode("latin-1") for name, value in headers.items()}
        method = scope.get("method", "WEBSOCKET")
        attributes = {
            "http.request.method": method,
            "http.route": route,
            "url.path": scope["path"],
            "network.protocol.version": scope.get("http_version", ""),
        }
        return self._arrived(f"{method} {route}", given, attributes, target, meta)

    def arrived_by_grpc(self, path: str, metadata: Any, target: str, meta: dict[str, Any]) -> Any:
        """Begin the span of a gRPC call from outside, as `arrived` does."""
        given = {name: value for name, value in metadata if name.encode() in _TAKEN and isinstance(value, str)}
        service, _, method = path.lstrip("/").rpartition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        return self._arrived(path.lstrip("/"), given, attributes, target, meta)

    def _arrived(self, name: str, given: Any, attributes: dict[str, str], target: str, meta: dict[str, Any]) -> Any:
        around = propagate.extract(given)
        attributes = {**attributes, "serve.request_id": meta["id"], **_target(target)}
        span = self._tracer.start_span(name, around, SpanKind.SERVER, attributes)
        meta["trace"] = _carried(span, around)
        return span

    def answered(self, span: Any, status: int, replica: str) -> None:
        """End the span of a request from outside."""
        span.set_attribute("http.response.status_code", status)
        self._answered(span, status >= 500, replica)

    def answered_by_grpc(self, span: Any, code: int, replica: str) -> None:
        """End the span of a gRPC call from outside."""
        span.set_attribute("rpc.grpc.status_code", code)
        self._answered(span, bool(code), replica)

    @staticmethod
    def _answered(span: Any, failed: bool, replica: str) -> None:
        if replica:
            span.set_attribute("serve.replica", replica)
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def calling(self, meta: dict[str, Any], key: str) -> Any:
        """Begin the span of a call by a handle, below the current span, and add it to `meta`."""
        span = self._tracer.start_span(
            f"call {ends_of_key(key)[1]}.{meta['method']}",
            None,
            SpanKind.CLIENT,
            {"serve.request_id": meta["id"], "serve.method": meta["method"], **_target(key)},
        )
        meta["trace"] = _carried(span)
        return span

    def queued(self, meta: Any, key: str) -> Any:
        """Begin the span of a request that looks for a replica; return None if it belongs to no trace."""
        carried = meta.get("trace") if isinstance(meta, dict) else None
        if carried is None:
            return None
        name = f"queue {ends_of_key(key)[1]}"
        return self._tracer.start_span(name, propagate.extract(carried), attributes=_target(key))

    def over(self, span: Any, error: BaseException | None = None, **attributes: str) -> None:
        """End a span."""
        for name, value in attributes.items():
            span.set_attribute(f"serve.{name}", value)
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    async def carried_out(self, work: Awaitable[int], meta: Mapping[str, Any]) -> int:
        """Await `work`, which carries out a request in a replica, within the request's span; return its status."""
        replica = replica_of_process()
        place = {"serve.request_id": meta["id"], "serve.type": meta["type"]}
        name = "replica"
        if replica is not None:
            name = f"replica {replica.deployment}"
            place["serve.application"], place["serve.deployment"] = replica.app_name, replica.deployment
            place["serve.replica"] = replica.replica_id
        given = propagate.extract(meta["trace"])
        span = self._tracer.start_span(name, given, SpanKind.SERVER, place)
        token = context.attach(trace.set_span_in_context(span, given))
        try:
            status = await work
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            return status
        finally:
            context.detach(token)
            span.end()

    @contextmanager
    def user_code(self, name: str) -> Iterator[None]:
        """Run the block within a span of user code, below the current span; without one, do not make one."""
        if not trace.get_current_span().get_span_context().is_valid:
            yield
            return
        with self._tracer.start_as_current_span(name):
            yield

    async def items(self, name: str, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield `items`, which user code makes, within a span for all of them.

        It is the current span for none of them.
        """
        span = self._tracer.start_span(name)
        count, error = 0, None
        try:
            async for item in items:
                count += 1
                yield item
        except Exception as raised:
            error = raised
            raise
        finally:
            span.set_attribute("serve.items", count)
            self.over(span, error)

    def flush(self) -> None:
        """Send the spans that are not sent yet, for a second at most."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            flush(1000)


def _carried(span: Any, around: Any = None) -> dict[str, str]:
    carried: dict[str, str] = {}
    propagate.inject(carried, trace.set_span_in_context(span, around))
    return carried


def _target(key: str) -> dict[str, str]:
    application, deployment = ends_of_key(key)
    return {"serve.application": application, "serve.deployment": deployment}
