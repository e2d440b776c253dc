"""Answers of Starlette's (and FastAPI's) applications for failed calls of handles, in place of 500."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response

from kernel_serve.context import current_request
from kernel_serve.errors import ServeError, said_by
from kernel_serve.failing import CALLS_FAIL, status_of
from kernel_serve.logs import logger
from kernel_serve.tracebacks import told_from_the_user

_log = logger()


def add_exception_handlers(app: Any) -> None:
    """Have an application, and those mounted in it, answer failed calls of handles with 503 and Retry-After, or 408.

    Handlers of the user come first: those for the error's class, for a base of it, for `Exception` or for 500. Nothing
    happens to applications that are not Starlette's. Call it before the first request.
    """
    if not isinstance(app, Starlette):
        return
    handlers = app.exception_handlers
    if 500 not in handlers:
        unhandled = [kind for kind in CALLS_FAIL if not any(each in handlers for each in kind.__mro__)]
        handlers.update(dict.fromkeys(unhandled, _answer))
    for route in app.routes:
        add_exception_handlers(getattr(route, "app", None))


async def _answer(connection: HTTPConnection, error: Exception) -> Response:
    if not isinstance(connection, Request) or not isinstance(error, ServeError):
        raise error  # the caller of the application ends a WebSocket
    request = current_request()
    _log.error(
        "a request raised", deployment=request.deployment, request_id=request.request_id,
        path=connection.scope["path"], exc_info=told_from_the_user(error),
    )  # fmt: skip
    status, headers = status_of(error)
    answer = PlainTextResponse(f"{said_by(error)} (request {request.request_id})", status)
    answer.raw_headers.extend(headers)
    return answer
