"""HTTP requests and WebSockets, carried out by the user's code or by the ASGI application that is its ingress."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocketDisconnect

from kernel_serve import tracing
from kernel_serve.context import RequestContext, end_request, enter_request
from kernel_serve.errors import DeploymentError, said_by
from kernel_serve.failing import CALLS_FAIL, status_of
from kernel_serve.logs import logger
from kernel_serve.replica.answers import refusal, to_response
from kernel_serve.replica.asgi import Application, HTTPExchange, Message, WebSocketExchange
from kernel_serve.replica.user_code import ASYNC_ITEMS, PLAIN_ITEMS, UserCode
from kernel_serve.tracebacks import told_from_the_user
from kernel_serve.wire.link import Exchange

_log = logger()


class HTTPCalls:
    """Carries out requests: with an ASGI application, if the deployment has one, else by its `__call__`.

    When its client has gone, a WebSocket's application has `patience` seconds to return, before it is cancelled.
    """

    def __init__(
        self, code: UserCode, application: str, deployment: str, asgi: Application | None, patience: float
    ) -> None:
        self._code = code
        self._patience = patience
        self._application = application
        self._deployment = deployment
        self._asgi = asgi
        self._answers = asgi is not None or code.is_callable
        self._has_declined = False
        self._takes_request = self._answers and asgi is None and code.takes_arguments("__call__")

    async def handle(self, exchange: Exchange, meta: dict[str, Any], body: bytes, end: bool) -> int:
        """Carry out one HTTP request; return the status of its answer, 500 when it raised."""
        http = HTTPExchange(exchange, body, end)
        request = self._enter(meta)
        try:
            if not self._answers:
                await self._decline(meta, http)
            elif self._asgi is not None:
                await self._call_ingress(self._scope(meta), http.receive, http.send)
            else:
                await self._call(meta, http)
            if not http.over and not exchange.closed:
                raise DeploymentError(f"the application of {self._deployment} returned before it had answered")
        except BaseException as error:  # user code may raise anything
            if exchange.closed and not http.over:  # the client has gone
                raise asyncio.CancelledError from error
            _log.error(
                "a request raised", deployment=self._deployment, request_id=request.request_id,
                path=meta["scope"]["path"], exc_info=told_from_the_user(error),
            )  # fmt: skip
            return await self._failed(http, request.request_id, error)
        finally:
            end_request(request)
        return http.status

    async def handle_websocket(self, exchange: Exchange, meta: dict[str, Any], body: bytes, end: bool) -> int:
        """Carry out one WebSocket; return 101, 403 if the deployment takes no WebSockets, 500 when it raised."""
        socket = WebSocketExchange(exchange)
        request = self._enter(meta)
        try:
            if self._asgi is None:
                await socket.send({"type": "websocket.close", "code": 1003, "reason": "this is no WebSocket"})
                return 403
            with self._ending_after(exchange, request), contextlib.suppress(WebSocketDisconnect):
                await self._call_ingress(self._scope(meta), socket.receive, socket.send)
            if not exchange.closed:
                await socket.send({"type": "websocket.close", "code": 1000})
        except BaseException as error:  # user code may raise anything
            if exchange.closed:  # the client has gone
                raise asyncio.CancelledError from error
            _log.error(
                "a WebSocket raised", deployment=self._deployment, request_id=request.request_id,
                exc_info=told_from_the_user(error),
            )  # fmt: skip
            await socket.fail(f"Internal Server Error (request {request.request_id})")
            return 500
        finally:
            end_request(request)
        return 101

    @contextlib.contextmanager
    def _ending_after(self, exchange: Exchange, request: RequestContext) -> Iterator[None]:
        """Cancel the work inside if it goes on for too long after the client has gone."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        timers: list[asyncio.TimerHandle] = []

        def give_up() -> None:
            _log.warning(
                f"a WebSocket of {self._deployment} went on for {self._patience:g} s after its client had gone, and is "
                "cancelled: its application must return when receive() gives websocket.disconnect",
                request_id=request.request_id, route=request.route,
            )  # fmt: skip
            exchange.abort({"reason": "cancelled"})
            assert task is not None
            task.cancel()

        def gone() -> None:
            timers.append(loop.call_later(self._patience, give_up))

        exchange.on_other_ended = gone
        if exchange.other_ended:
            gone()
        try:
            yield
        finally:
            exchange.on_other_ended = None
            for timer in timers:
                timer.cancel()

    async def _call_ingress(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert self._asgi is not None
        if tracing.active is None:
            await self._asgi(scope, receive, send)
        else:
            with tracing.active.user_code(f"{self._deployment} (ASGI)"):
                await self._asgi(scope, receive, send)

    def _enter(self, meta: dict[str, Any]) -> RequestContext:
        request = RequestContext(
            meta["id"], meta.get("route", ""), self._application, self._deployment, meta.get("model", ""), []
        )
        enter_request(request)
        return request

    def _scope(self, meta: dict[str, Any]) -> dict[str, Any]:
        scope: dict[str, Any] = meta["scope"]
        scope["type"] = meta["type"]
        scope["asgi"] = {"version": "3.0", "spec_version": "2.4"}
        scope["state"] = {}
        scope["extensions"] = {"websocket.http.response": {}} if meta["type"] == "websocket" else {}
        return scope

    async def _call(self, meta: dict[str, Any], http: HTTPExchange) -> None:
        function, kind = self._code.method("__call__")
        scope = self._scope(meta)
        try:
            args = (Request(scope, http.receive, http.send),) if self._takes_request else ()
            result = await self._code.run(function, kind, args, {})
        except HTTPException as error:
            result = refusal(error)
        if kind in (ASYNC_ITEMS, PLAIN_ITEMS) and not isinstance(result, Response):
            result = self._code.items(result)
        response = await to_response(result, self._code)
        await response(scope, http.receive, http.send)

    async def _decline(self, meta: dict[str, Any], http: HTTPExchange) -> None:
        """Answer for a class that takes calls by handles alone, and no requests."""
        text = (
            f"deployment {self._deployment} takes no HTTP requests: define __call__(self, request) in its class, or "
            "put an application in front with @serve.ingress(app); route_prefix=None keeps HTTP away from it"
        )
        if not self._has_declined:
            self._has_declined = True
            _log.warning(text, path=meta["scope"]["path"])
        await PlainTextResponse(text, 404)(self._scope(meta), http.receive, http.send)

    @staticmethod
    async def _failed(http: HTTPExchange, request_id: str, error: BaseException) -> int:
        """Answer a request that raised `error`; return the status.

        The failure of a call by a handle becomes its own.
        """
        if http.started:
            http.break_off()
            return 500
        status, said = 500, "Internal Server Error"
        more: list[tuple[bytes, bytes]] = []
        if isinstance(error, CALLS_FAIL):
            (status, more), said = status_of(error), said_by(error)
        text = f"{said} (request {request_id})".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode()), *more]
        message: Message = {"type": "http.response.start", "status": status, "headers": headers}
        await http.send(message)
        await http.send({"type": "http.response.body", "body": text})
        return status
