"""The ASGI application in front of a deployment's object, where `@serve.ingress(app)` has given it one."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import Any

from kernel_serve.errors import DeploymentError
from kernel_serve.logs import logger
from kernel_serve.replica.asgi import Application
from kernel_serve.replica.class_routes import bind_routes, leave_own_routes
from kernel_serve.replica.user_code import UserCode

_log = logger()

FRONT = "__serve_front__"
"""Attribute of a class: the application, or a function that makes it."""


class Front:
    """An application, started up: what its start-up has put into ASGI's lifespan state is there for each request."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._state: dict[str, Any] = {}
        self._told: asyncio.Queue[str] = asyncio.Queue()
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._living: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request or a WebSocket."""
        scope["state"] = self._state.copy()
        await self._application(scope, receive, send)

    async def start(self) -> None:
        """Run the application's start-up, if it has one. Raises DeploymentError."""
        self._living = asyncio.get_running_loop().create_task(self._live())
        self._told.put_nowait("lifespan.startup")
        if failure := await self._heard.get():
            raise DeploymentError(f"the application in front of the deployment could not start: {failure}")

    async def stop(self) -> None:
        """Run what it does at its end, if there is something."""
        if self._living is not None and not self._living.done():
            self._told.put_nowait("lifespan.shutdown")
            if failure := await self._heard.get():
                _log.error("the application in front of a deployment could not end well", failure=failure)

    async def _live(self) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": await self._told.get()}

        async def send(message: Any) -> None:
            failed = message["type"].endswith(".failed")
            self._heard.put_nowait((message.get("message") or "no reason given") if failed else "")

        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        with contextlib.suppress(Exception):  # of an application that knows no lifespan
            await self._application(scope, receive, send)
        self._heard.put_nowait("")


async def front_of(target: Any, code: UserCode) -> Front | None:
    """Return the application of the object that `code` has made, its start-up done; None when it has none."""
    from kernel_serve.replica.passing_on import pass_failures_on  # starlette: programs that only deploy need it not

    front = getattr(target, FRONT, None)
    if front is None:
        return None
    if inspect.isfunction(front) and len(inspect.signature(front).parameters) < 3:
        front = front(code.instance) if inspect.signature(front).parameters else front()
    if inspect.isclass(target):
        bind_routes(front, target)  # also those that the application was given after its class
    leave_own_routes(front, target)
    pass_failures_on(front)
    found = Front(front)
    await found.start()
    return found
