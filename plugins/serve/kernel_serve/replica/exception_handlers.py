"""Why calls of handles failed, as answers of Starlette's applications, FastAPI's among them, which would say 500."""

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
    """Have an application, and those mounted in it, answer for failed calls of handles: 503 with Retry-After, or 408.

    What the user has a handler for stays the user's: one for the error's class, for another that it is of, for
    `Exception` or for 500. Nothing happens to applications that are not Starlette's. To be called before `app` is.
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
        raise error  # a WebSocket's: whoever has called the application ends it
    request = current_request()
    _log.error(
        "a request raised", deployment=request.deployment, request_id=request.request_id,
        path=connection.scope["path"], exc_info=told_from_the_user(error),
    )  # fmt: skip
    status, headers = status_of(error)
    answer = PlainTextResponse(f"{said_by(error)} (request {request.request_id})", status)
    answer.raw_headers.extend(headers)
    return answer
