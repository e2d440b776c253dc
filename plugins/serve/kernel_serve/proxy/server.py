"""An HTTP server: its socket, its connections of every protocol, and their deadlines.

Why HTTP/1 is not uvicorn's, measured on 2026-11-27 (`python -m benchmarks.serve_parts`: both in one proxy, by turns, on
two busy CPUs; medians): by 1, 8 and 64 connections 1.4, 1.2 and 1.6 times as many small requests, with a p99 of 13, 17
and 41 ms against 13, 19 and 73; 1.2 and 1.35 times as many bodies of 10 MB up and down; beside 32 clients that stand
still 1.3 to 1.6 times as many, in the same memory. And uvicorn limits no times of heads, bodies and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kernel_serve.proxy.asgi_cycle import ASGICycle
from kernel_serve.proxy.extra_protocols import ExtraProtocol, installed_protocols
from kernel_serve.proxy.http1 import HTTP1Connection
from kernel_serve.proxy.other_protocols import Others
from kernel_serve.proxy.protocol_detection import ProtocolDetection
from kernel_serve.proxy.proxied_request import ResponseWriter
from kernel_serve.proxy.server_state import RequestMaker, ServerState
from kernel_serve.proxy.tls import tls_context
from kernel_serve.settings import HTTPOptions

_SWEEP_SECONDS = 0.5
_LOOK_SECONDS = 0.02
DRAIN_SECONDS = 30.0
_SYSTEM = "/-/"


class HTTPServer:
    """Serves an ASGI application, by HTTP/1.1, WebSocket and the extra `protocols` (by default those installed).

    `direct(scope, reply)`, if given, makes the `ProxiedRequest` of a request, which then does not need ASGI; it is not
    used with middlewares, and for paths below `/-/`. Raises ServeError for a certificate that can't be used.
    """

    def __init__(
        self,
        options: HTTPOptions,
        application: Any,
        direct: RequestMaker | None = None,
        protocols: Sequence[ExtraProtocol] | None = None,
    ) -> None:
        self.state = ServerState(options, self._make_request)
        self._application = with_middlewares(application, options.middlewares)
        self._direct = None if options.middlewares else direct
        self._sweeping: asyncio.TimerHandle | None = None
        self._server: asyncio.AbstractServer | None = None
        self._others: Others | None = None
        self._protocols = installed_protocols() if protocols is None else protocols
        self._tls = tls_context(options, [each.alpn for each in self._protocols])

    async def start(self, listening: Any) -> None:
        """Begin to take connections at a bound socket, in the running loop."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._detection, sock=listening, backlog=4096, ssl=self._tls)
        self._sweep()

    @property
    def serving(self) -> bool:
        """Whether it takes connections."""
        return self._server is not None and self._server.is_serving()

    def _make_request(self, scope: dict[str, Any], reply: ResponseWriter) -> Any:
        """Return the handler of a request, of whichever protocol."""
        if self._direct is None or scope["path"].startswith(_SYSTEM):
            return ASGICycle(self._application, scope, reply, self.state.request_ids.of(scope["headers"]))
        return self._direct(scope, reply)

    def _detection(self) -> ProtocolDetection:
        return ProtocolDetection(self.state, self._http1, self._protocols)

    def _http1(self) -> HTTP1Connection:
        return HTTP1Connection(self.state, self._websocket)

    def _websocket(self) -> Any:
        if self._others is None:
            self._others = Others(self.state.options, self._application)
        return self._others.websocket()

    def _sweep(self) -> None:
        now = self.state.now()
        for connection in [each for each in self.state.connections if each.deadline < now]:
            connection.expire()
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def stop_listening(self) -> None:
        """Take no more connections. Those that wait at a socket which other proxies share are left to them."""
        if self._server is not None:
            self._server.close()

    async def drain(self, timeout: float = DRAIN_SECONDS, patience: float = 0.0) -> None:
        """Take no more connections; return when the open ones have had their answers, and are closed.

        A connection of HTTP/1.1 without a request is closed with its next answer, or after `patience` seconds: a client
        may be sending a request just now. After `timeout` seconds the rest is cut off.
        """
        self.state.closing = True
        self.stop_listening()
        for connection in list(self.state.connections):
            if not isinstance(connection, (ProtocolDetection, HTTP1Connection)):
                connection.finish()
        others = self._others.connections if self._others is not None else set()
        for other in list(others):
            other.shutdown()
        begun = self.state.now()
        while (self.state.connections or others) and self.state.now() < begun + timeout:
            if self.state.now() >= begun + patience:
                for connection in list(self.state.connections):
                    connection.finish()
            await asyncio.sleep(_LOOK_SECONDS)
        left: list[Any] = [*self.state.connections, *others]
        for each in left:
            each.transport.abort()
        if self._sweeping is not None:
            self._sweeping.cancel()


def with_middlewares(application: Any, middlewares: Any) -> Any:
    """Return an application behind others (classes, or starlette's `Middleware`s), the first of them outermost."""
    for middleware in reversed(middlewares):
        if isinstance(middleware, type):
            application = middleware(application)
        else:
            application = middleware.cls(application, *middleware.args, **middleware.kwargs)
    return application
