"""Answers of Starlette's and FastAPI's applications when a call of a handle in them has failed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, WebSocket
from kernel_serve.errors import BackPressureError, DeploymentUnavailableError, RequestTimeoutError, ServeError
from kernel_serve.failing import CALLS_FAIL
from kernel_serve.replica.exception_handlers import add_exception_handlers
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route


def failing(error: Exception, **options: Any) -> Starlette:
    """Return an application whose every request fails with an error."""

    async def fail(request: Any) -> None:
        raise error

    return Starlette(routes=[Route("/", fail)], **options)


def ask(app: Any, path: str = "/") -> tuple[int, str, str]:
    """Return the status of an application's answer, its text, and after how long to try again."""
    add_exception_handlers(app)

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path)

    answer = asyncio.run(get())
    return answer.status_code, answer.text, answer.headers.get("retry-after", "")


async def of_the_user(request: Any, error: Exception) -> PlainTextResponse:
    return PlainTextResponse(f"mine: {error}", 418)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BackPressureError("too many wait"), (503, "too many wait (request )", "1")),
        (DeploymentUnavailableError("it is away"), (503, "it is away (request )", "2")),
        (RequestTimeoutError("it took long"), (408, "it took long (request )", "")),
        (ValueError("a secret"), (500, "Internal Server Error", "")),
    ],
)
def test_failures_of_calls_are_passed_on(error: Exception, expected: tuple[int, str, str]) -> None:
    assert ask(failing(error)) == expected
    assert ask(Starlette(routes=[Mount("/in", failing(error))]), "/in/") == expected
    api = FastAPI()

    @api.get("/")
    async def fail() -> None:
        raise error

    assert ask(api) == expected


@pytest.mark.parametrize("kind", [BackPressureError, ServeError, Exception, 500])
def test_what_the_user_handles_stays_the_users(kind: Any) -> None:
    app = failing(BackPressureError("too many wait"), exception_handlers={kind: of_the_user})
    assert ask(app) == (418, "mine: too many wait", "")


def test_a_handler_for_another_failure_changes_nothing() -> None:
    app = failing(BackPressureError("too many wait"), exception_handlers={TimeoutError: of_the_user})
    assert ask(app)[0] == 503
    assert ask(failing(RequestTimeoutError("late"), exception_handlers={TimeoutError: of_the_user}))[0] == 418


def test_a_websocket_raises_and_other_applications_stay_as_they_are() -> None:
    api = FastAPI()

    @api.websocket("/")
    async def fail(socket: WebSocket) -> None:
        raise BackPressureError("too many wait")

    async def connect() -> None:
        async def never(*_: Any) -> Any:
            raise AssertionError("nothing is received or sent")

        scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b"", "extensions": {}}
        await api(scope, never, never)

    add_exception_handlers(api)
    with pytest.raises(BackPressureError):
        asyncio.run(connect())
    add_exception_handlers(connect)
    assert set(CALLS_FAIL) <= set(api.exception_handlers)
