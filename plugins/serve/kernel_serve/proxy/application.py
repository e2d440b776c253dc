"""The proxy as an ASGI application: for WebSockets, the paths below `/-/`, and middlewares."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

from kernel_serve.metrics.proxy import WEBSOCKET
from kernel_serve.proxy.other_protocols import CONNECTION
from kernel_serve.proxy.proxied_request import ProxiedRequest
from kernel_serve.proxy.service import ProxyService
from kernel_serve.proxy.system_paths import system_answer
from kernel_serve.proxy.websockets import pass_websocket, refuse

_KEPT = (
    "headers", "http_version", "method", "path", "query_string", "raw_path", "root_path", "scheme", "subprotocols",
    "type",
)  # fmt: skip
_AHEAD = 256 << 10
"""The number of bytes of an answer that may wait for a slow client."""


class ProxyApplication:
    """Serves scopes of type "http" and "websocket"."""

    def __init__(self, service: ProxyService) -> None:
        self._service = service

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request or WebSocket."""
        if scope["path"].startswith("/-/"):
            await system_answer(scope, send, self._service.endpoint_table, self._service.metrics_text)
        elif scope["type"] == "websocket":
            await self._websocket(plain(scope), receive, send, scope.get(CONNECTION))
        else:
            await _Pipe(self._service, plain(scope), receive, send).run()

    async def _websocket(self, scope: dict[str, Any], receive: Any, send: Any, connection: Any) -> None:
        service, begun, status = self._service, time.perf_counter(), 0
        replica = ""
        found = service.decide(scope)
        if found.refusal is not None:
            await receive()
            status, text, headers = found.refusal
            await refuse(send, status, text, headers, found.id)
        service.metrics.ongoing.value += 1
        try:
            if found.refusal is None:
                dispatcher = service.router.dispatcher(found.target)
                status, replica = await pass_websocket(dispatcher, found.meta, receive, send, connection)
        finally:
            milliseconds = (time.perf_counter() - begun) * 1e3
            meta = found.meta
            service.ended(
                found.target, meta.get("route", ""), {**scope, "method": WEBSOCKET}, status, milliseconds,
                found.id, None, replica, found.span,
            )  # fmt: skip


def plain(scope: dict[str, Any]) -> dict[str, Any]:
    """Return what replicas get of a scope: its values that marshal takes."""
    kept = {name: scope[name] for name in _KEPT if name in scope}
    kept["headers"] = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
    kept["raw_path"] = scope.get("raw_path") or scope["path"].encode()
    for name in ("client", "server"):
        kept[name] = tuple(scope[name]) if scope.get(name) else None
    if "subprotocols" in kept:
        kept["subprotocols"] = list(kept["subprotocols"])
    return kept


class _Pipe:
    """Represents a proxied request whose client is ASGI's `receive` and `send`."""

    def __init__(self, service: ProxyService, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self._receive, self._send = receive, send
        self._proxied = ProxiedRequest(service, scope, self)
        self._messages: deque[dict[str, Any]] = deque()
        self._more = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._size = 0
        self.must_wait = False

    async def run(self) -> None:
        """Send the request to a replica, and its answer back."""
        reading = asyncio.get_running_loop().create_task(self._read())
        try:
            over = False
            while not over:
                while not self._messages:
                    self._more.clear()
                    await self._more.wait()
                message = self._messages.popleft()
                await self._send(message)
                over = message["type"] == "http.response.body" and not message["more_body"]
                self._size -= len(message.get("body", b""))
                if self.must_wait and self._size < _AHEAD:
                    self.must_wait = False
                    self._proxied.resume()
        finally:
            reading.cancel()
            self._proxied.gone()

    async def _read(self) -> None:
        begun = over = False
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._proxied.gone()
                return
            if over:
                continue
            over = not message.get("more_body", False)
            if begun:
                self._proxied.feed(message.get("body", b""), over)
            else:
                begun = True
                self._proxied.begin(message.get("body", b""), over)
            await self._free.wait()

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        self._messages.append({"type": "http.response.start", "status": status, "headers": headers})
        self.go_on(body, end)

    def go_on(self, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        self._messages.append({"type": "http.response.body", "body": body, "more_body": not end})
        self._size += len(body)
        self.must_wait = self._size >= _AHEAD
        self._more.set()

    def break_off(self) -> None:
        """See `ResponseWriter`."""
        raise ConnectionResetError("an answer that had begun could not be finished")

    def hold(self, wait: bool) -> None:
        """See `ResponseWriter`."""
        if wait:
            self._free.clear()
        else:
            self._free.set()
