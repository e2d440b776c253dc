"""The ASGI application in front of a deployment's object, if `@serve.ingress(app)` has set one."""

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

ASGI_INGRESS = "__serve_asgi_ingress__"
"""The attribute of a class that has the application, or a function that makes it."""


class ASGIIngress:
    """Holds a started application. Each request gets what its start-up has put into ASGI's lifespan state."""

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
        """Run the application's start-up, if it has one. Raises DeploymentError if that fails."""
        self._living = asyncio.get_running_loop().create_task(self._live())
        self._told.put_nowait("lifespan.startup")
        if failure := await self._heard.get():
            raise DeploymentError(f"the application in front of the deployment could not start: {failure}")

    async def stop(self) -> None:
        """Run the application's shutdown, if it has one."""
        if self._living is not None and not self._living.done():
            self._told.put_nowait("lifespan.shutdown")
            if failure := await self._heard.get():
                _log.error("the shutdown of the application in front of a deployment failed", failure=failure)

    async def _live(self) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": await self._told.get()}

        async def send(message: Any) -> None:
            failed = message["type"].endswith(".failed")
            self._heard.put_nowait((message.get("message") or "no reason given") if failed else "")

        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
        with contextlib.suppress(Exception):  # an application without lifespan may raise anything
            await self._application(scope, receive, send)
        self._heard.put_nowait("")


async def asgi_ingress_of(target: Any, code: UserCode) -> ASGIIngress | None:
    """Return the application of the object that `code` has made, after its start-up; None without one."""
    # here, since programs that only deploy do not need starlette
    from kernel_serve.replica.exception_handlers import add_exception_handlers

    application = getattr(target, ASGI_INGRESS, None)
    if application is None:
        return None
    if inspect.isfunction(application) and len(inspect.signature(application).parameters) < 3:
        application = application(code.instance) if inspect.signature(application).parameters else application()
    if inspect.isclass(target):
        bind_routes(application, target)  # for routes that were added to the application after its class
    leave_own_routes(application, target)
    add_exception_handlers(application)
    found = ASGIIngress(application)
    await found.start()
    return found
