"""Requests that an ASGI application answers: a middleware, or a path of the proxy itself."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from kernel_serve.logs import logger
from kernel_serve.proxy.proxied_request import ResponseWriter
from kernel_serve.proxy.request_ids import HEADER

_log = logger()
_AHEAD = 256 << 10
"""The number of bytes of a body that may wait for an application that does not read."""


class ASGICycle:
    """Represents one request, carried out by an ASGI application. Used like a `ProxiedRequest`.

    The answer gets the request's id, unless the application has given it one.
    """

    def __init__(self, application: Any, scope: dict[str, Any], reply: ResponseWriter, id: str) -> None:
        self._application = application
        self._id = (HEADER, id.encode("latin-1"))
        self._scope = {**scope, "asgi": {"version": "3.0", "spec_version": "2.4"}, "state": {}, "extensions": {}}
        self._reply = reply
        self._events: deque[dict[str, Any]] = deque()
        self._changed = asyncio.Event()
        self._start: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._size = 0
        self._begun = self._over = self._gone = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, body: bytes, end: bool) -> None:
        """Start the application."""
        self.feed(body, end)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def feed(self, body: bytes, end: bool) -> None:
        """Give the application more of the body."""
        self._events.append({"type": "http.request", "body": body, "more_body": not end})
        self._size += len(body)
        if not end and self._size >= _AHEAD:
            self._reply.hold(True)
        self._changed.set()

    def gone(self) -> None:
        """Tell the application that the client has gone."""
        self._gone = True
        self._changed.set()

    def resume(self) -> None:
        """Let the application send again: the client takes more."""
        self._changed.set()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except Exception:
            if not self._gone:
                _log.exception("a middleware, or a route of the proxy, failed", path=self._scope["path"])
        if self._over or self._gone:
            return
        if self._begun:
            self._reply.break_off()
        else:
            self._over = True
            headers = [(b"content-type", b"text/plain; charset=utf-8"), self._id]
            self._reply.begin(500, headers, b"Internal Server Error", True)

    async def _receive(self) -> dict[str, Any]:
        while not self._events:
            if self._gone or self._over:
                return {"type": "http.disconnect"}
            await self._wait()
        event = self._events.popleft()
        if self._size >= _AHEAD > self._size - len(event["body"]):
            self._reply.hold(False)
        self._size -= len(event["body"])
        return event

    async def _send(self, message: dict[str, Any]) -> None:
        while self._reply.must_wait and not self._gone:
            await self._wait()
        if self._gone:
            raise ConnectionResetError("the client is gone")
        if self._over:
            return
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if not any(name.lower() == HEADER for name, _ in headers):
                headers.append(self._id)
            self._start = (message["status"], headers)
        elif message["type"] == "http.response.body":
            body, end = bytes(message.get("body", b"")), not message.get("more_body", False)
            self._over = end
            if self._begun:
                self._reply.go_on(body, end)
            else:
                assert self._start is not None
                self._begun = True
                self._reply.begin(*self._start, body, end)
            self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()
