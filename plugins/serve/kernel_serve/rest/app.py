"""The ASGI application of the REST API.

GET    /api/serve/applications/   what runs, in detail, and the configuration that was deployed
PUT    /api/serve/applications/   deploy a configuration, in JSON or YAML
DELETE /api/serve/applications/   end Serve
GET    /api/serve/status          what runs
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kernel_serve.config.reading import read
from kernel_serve.config.values import ServeConfig
from kernel_serve.errors import NotServingError, ServeError
from kernel_serve.logs import logger
from kernel_spec.errors import KernelError

LARGEST_BODY = 1 << 20
_log = logger()


class RestBackend(Protocol):
    """Offers the operations behind the API. Its methods block, and are called in threads."""

    def status(self) -> dict[str, Any]:
        """Return the status of everything that runs. Raises NotServingError when Serve does not run."""

    def config(self) -> dict[str, Any] | None:
        """Return the `data` of the configuration that was deployed last."""

    def deploy(self, config: ServeConfig) -> Sequence[str]:
        """Deploy a configuration, starting Serve if need be, and return the names of its applications."""

    def end(self) -> None:
        """End Serve."""


def make_app(backend: RestBackend, token: str) -> ASGIApp:
    """Return the application, for clients that send `token`."""
    service = _Service(backend)
    routes = []
    for path, methods in (
        ("/api/serve/applications", {"GET": service.show, "PUT": service.put, "DELETE": service.delete}),
        ("/api/serve/status", {"GET": service.status}),
    ):
        for method, answer in methods.items():
            routes += [Route(path, answer, methods=[method]), Route(path + "/", answer, methods=[method])]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _failed})
    return _Guard(app, token)


class _Guard:
    """Passes on requests with the token, and refuses others."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        shown = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(shown, self._expected):
            answer = _error(401, "show the session's token: Authorization: Bearer TOKEN (`kernel token` has it)")
            answer.headers["www-authenticate"] = "Bearer"
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


class _Service:
    def __init__(self, backend: RestBackend) -> None:
        self._backend = backend
        self._one_at_a_time = asyncio.Lock()

    async def status(self, request: Request) -> Response:
        """Answer with the status of everything that runs."""
        return JSONResponse(await self._status())

    async def show(self, request: Request) -> Response:
        """Answer with the status, and the configuration that was deployed."""
        status = await self._status()
        kept = await asyncio.to_thread(self._backend.config)
        config = kept if kept is not None and status["running"] else {}
        for each in config.get("applications", []):
            if each["name"] in status["applications"]:
                status["applications"][each["name"]]["deployed_app_config"] = each
        return JSONResponse({**status, "config": config})

    async def put(self, request: Request) -> Response:
        """Deploy the configuration in the body; answer when the controller has taken it."""
        try:
            text = (await _body(request)).decode()
        except UnicodeDecodeError:
            raise HTTPException(400, "the body is not UTF-8") from None
        try:
            config = read(text, "body")
            async with self._one_at_a_time:
                names = await asyncio.to_thread(self._backend.deploy, config)
        except ServeError as error:
            raise HTTPException(400, str(error)) from None
        return JSONResponse({"applications": list(names)})

    async def delete(self, request: Request) -> Response:
        """End Serve."""
        async with self._one_at_a_time:
            await asyncio.to_thread(self._backend.end)
        return JSONResponse({})

    async def _status(self) -> dict[str, Any]:
        try:
            return {"running": True, **await asyncio.to_thread(self._backend.status)}
        except NotServingError:
            return {"running": False, "applications": {}, "proxies": {}, "endpoints": []}


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"the body is larger than {LARGEST_BODY:,} bytes")
    return bytes(body)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _error(
            404, f"nothing is at {request.url.path}: there are /api/serve/applications/ and /api/serve/status"
        )
    return _error(error.status_code, error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an unexpected error, also one of an application's code: its author is the client."""
    _log.warning("REST request failed", path=request.url.path, error=repr(error))
    status = 503 if isinstance(error, KernelError) else 500
    return _error(status, f"{type(error).__name__}: {error}")


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)
