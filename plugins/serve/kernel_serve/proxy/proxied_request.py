"""One request in the proxy: sent to a replica, and its answer sent back, without a task of its own.

The handler of the client's connection passes on what comes from there (`begin`, `feed`, `gone`), and is the
`ResponseWriter` for the answer.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol

from kernel_serve import tracing
from kernel_serve.errors import NotServingError, RequestTimeoutError, ServeError
from kernel_serve.failing import CLIENT_GONE, TooLargeError, status_of
from kernel_serve.proxy.request_ids import HEADER as REQUEST_ID
from kernel_serve.routing.dispatcher import Dispatcher, RoutedRequest
from kernel_serve.wire.link import PIECE, Exchange

if TYPE_CHECKING:
    from kernel_serve.proxy.service import ProxyService, RoutingDecision

Headers = list[tuple[bytes, bytes]]

_SAFE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
"""Methods whose requests may be sent again when their replica died (RFC 9110, 9.2.1)."""

_DETOURS = 3
"""The number of other deployments to try when the deployment of a request ends before the request has begun."""


class ResponseWriter(Protocol):
    """Takes an answer. While `must_wait`, the request sends nothing, until `resume` is called on it."""

    must_wait: bool

    def begin(self, status: int, headers: Headers, body: bytes, end: bool) -> None:
        """Send the status, the headers, and the first piece of the body."""

    def go_on(self, body: bytes, end: bool) -> None:
        """Send another piece."""

    def break_off(self) -> None:
        """Cut off an answer that has begun, so that the client sees that it is incomplete."""

    def hold(self, wait: bool) -> None:
        """Stop reading the request's body if `wait`; else read on."""


class ProxiedRequest:
    """Represents a request, from its first bytes in the proxy to the last ones of its answer."""

    __slots__ = (
        "_begun", "_detours", "_dispatcher", "_exchange", "_held", "_over", "_prefix", "_reply", "_request", "_scope",
        "_sent", "_service", "_size", "_span", "_started", "_status", "_target", "_timer", "id",
    )  # fmt: skip

    def __init__(self, service: ProxyService, scope: dict[str, Any], reply: ResponseWriter) -> None:
        self._service = service
        self._scope = scope
        self._reply = reply
        self._begun = time.perf_counter()
        self._started = self._over = False
        self._exchange: Exchange | None = None
        self._request: RoutedRequest | None = None
        self._dispatcher: Dispatcher | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._held: list[tuple[bytes, bool]] = []
        self._size = self._sent = self._status = self._detours = 0
        self._target = self._prefix = self.id = ""
        self._span: Any = None

    # -- from the client -------------------------------------------------------------------------------------------

    def begin(self, body: bytes, end: bool) -> None:
        """Send the request to a replica, with the whole body or (not `end`) its beginning."""
        service = self._service
        service.metrics.ongoing.value += 1
        found = service.decide(self._scope)
        self.id = found.id
        if found.refusal is not None:
            self._whole(*found.refusal)
            return
        meta = found.meta
        self._target, self._prefix = found.target, meta["route"]
        self._span = found.span
        self._size = len(body)
        if self._size > service.options.maximum_body_bytes:
            self._failed(_too_large(service))
            return
        if not end:
            self._reply.hold(True)
        else:
            for shadow in found.shadows:
                service.shadows.send(shadow, meta, body, service.options.request_timeout_s)
        self._submit(found, body, end)

    def _submit(self, found: RoutingDecision, body: bytes, end: bool) -> None:
        service, meta = self._service, found.meta
        self._target, self._prefix = found.target, meta["route"]
        repeatable = end and self._scope["method"] in _SAFE
        request = self._request = RoutedRequest(meta, body, end, self._answered, self._not_begun, repeatable)
        dispatcher = self._dispatcher = service.router.dispatcher(found.target)
        timeout = dispatcher.request_timeout
        if timeout is None:
            timeout = service.options.request_timeout_s
        if timeout is not None and (not end or self._size > PIECE):
            # the first event of such a request is its admission, which the dispatcher would take for an answer
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(timeout, self._too_late, timeout)
            timeout = None
        dispatcher.submit(request, timeout)

    def feed(self, body: bytes, end: bool) -> None:
        """Send more of the body."""
        if self._over:
            return
        self._size += len(body)
        if self._size > self._service.options.maximum_body_bytes:
            self._give_up()
            self._failed(_too_large(self._service))
        elif self._exchange is None:
            self._held.append((body, end))
        else:
            self._send_on(self._exchange, body, end)

    def gone(self) -> None:
        """Cancel the request: the client has gone."""
        if not self._over:
            self._give_up()
            self._end(CLIENT_GONE)

    def resume(self) -> None:
        """Send more of the answer: the client takes more."""
        if self._exchange is not None and not self._over:
            self._take()

    def _send_on(self, exchange: Exchange, body: bytes, end: bool) -> None:
        exchange.send(None, body, end=end)
        if exchange.must_wait and not end:
            self._reply.hold(True)
            draining = asyncio.ensure_future(exchange.drain())
            draining.add_done_callback(lambda _: None if self._over else self._reply.hold(False))

    def _too_late(self, timeout: float) -> None:
        if not self._started:
            self._give_up()
            self._failed(RequestTimeoutError(f"a request for {self._target} was not answered within {timeout:g} s"))

    def _give_up(self) -> None:
        if self._exchange is not None:
            self._exchange.wake = None
            self._exchange.abort({"reason": "cancelled"})
        elif self._request is not None and self._dispatcher is not None:
            self._request.on_failure = _ignore
            self._dispatcher.cancel(self._request)

    # -- from the replica ------------------------------------------------------------------------------------------

    def _answered(self, exchange: Exchange) -> None:
        if self._over:
            exchange.abort({"reason": "cancelled"})
            return
        self._exchange = exchange
        exchange.wake = self._take
        for body, end in self._held:
            self._send_on(exchange, body, end)
        self._held.clear()
        if not exchange.must_wait:
            self._reply.hold(False)
        self._take()

    def _take(self) -> None:
        exchange, reply = self._exchange, self._reply
        assert exchange is not None
        while exchange.has_event and not self._over and not reply.must_wait:
            meta, body, end = exchange.take()
            self._sent += len(body)
            if meta is not None:
                self._started = True
                headers = meta[2]
                headers.append((REQUEST_ID, self.id.encode("latin-1")))
                if end:
                    self._end(meta[1])
                else:
                    self._status = meta[1]
                reply.begin(meta[1], headers, body, end)
            elif self._started:  # otherwise the replica has only admitted a request whose body is still coming
                if end:
                    self._end(self._status)
                reply.go_on(body, end)
            elif end:
                self._failed(ServeError("the replica ended the request without an answer"))
        if exchange.failure is not None and not exchange.has_event and not self._over:
            self._failed(exchange.failure)

    def _not_begun(self, error: Exception) -> None:
        """End a request that did not begin. If its deployment has ended, try another one of the endpoint's."""
        request = self._request
        if isinstance(error, NotServingError) and request is not None and not self._over and self._detours < _DETOURS:
            self._detours += 1
            found = self._service.decide(self._scope, self.id)
            if found.refusal is None and found.target != self._target:
                if self._span is not None and tracing.active is not None:
                    tracing.active.over(self._span, error)
                self._span = found.span
                self._submit(found, request.body, request.end)
                return
        self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._over:
            return
        if self._started:
            self._end(self._status)
            self._reply.break_off()
            return
        failure = error if isinstance(error, ServeError) else ServeError(str(error))
        status, headers = status_of(failure)
        self._whole(status, f"{error} (request {self.id})", headers)

    def _whole(self, status: int, text: str, headers: Headers) -> None:
        body = text.encode()
        plain = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            *headers,
            (REQUEST_ID, self.id.encode("latin-1")),
        ]
        self._sent = len(body)
        self._end(status)
        self._reply.begin(status, plain, body, True)

    def _end(self, status: int) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        scope, service = self._scope, self._service
        milliseconds = (time.perf_counter() - self._begun) * 1e3
        replica = self._exchange.link.peer if self._exchange is not None else ""
        service.ended(self._target, self._prefix, scope, status, milliseconds, self.id, self._sent, replica, self._span)


def _too_large(service: ProxyService) -> TooLargeError:
    return TooLargeError(f"the body is larger than {service.options.maximum_body_bytes:,} bytes")


def _ignore(error: Exception) -> None:
    """Ignore the error: the client has gone."""
