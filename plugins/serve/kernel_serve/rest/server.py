"""The process that serves the REST API: an actor of its own, which isolates users' mistakes and strangers' requests.

It is found by name, outlives the program that started it, and starts Serve when something is deployed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import kernel
from kernel_serve.api import run as api
from kernel_serve.api.controller_calls import answer_to
from kernel_serve.config.deploying import build_in_tasks, deploy_config, keep, kept
from kernel_serve.config.values import ServeConfig
from kernel_serve.errors import ServeError
from kernel_serve.proxy.listening import bind
from kernel_serve.rest.app import make_app
from kernel_serve.rest.token import session_token
from kernel_serve.settings import HTTPOptions
from kernel_serve.values import NAMESPACE

NAME = "serve rest"
DEFAULT_PORT = 8265


class RestServer:
    """Serves once `start` was called. All methods are coroutines of the actor's loop."""

    def __init__(self) -> None:
        self._serving: asyncio.Task[None] | None = None
        self._server: Any = None
        self._address = ""

    async def start(self, host: str, port: int, token: str) -> str:
        """Listen, if it does not yet, and return the address. Raises ServeError when the port is taken."""
        if self._serving is not None:
            return self._address
        import uvicorn  # here, since the programs that start the actor do not need uvicorn

        listening = bind(HTTPOptions(host=host, port=port))
        app = make_app(_Backend(), token)
        config = uvicorn.Config(
            app, loop="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            timeout_keep_alive=30, limit_concurrency=100, h11_max_incomplete_event_size=16 << 10, http="h11",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve([listening]))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise ServeError("the REST server ended while it was starting")
            await asyncio.sleep(0.005)
        found_host, found_port = listening.getsockname()[:2]
        self._address = f"{found_host}:{found_port}"
        return self._address


class _Backend:
    """Works with the session's controller."""

    def status(self) -> dict[str, Any]:
        return api.status()

    def config(self) -> dict[str, Any] | None:
        return kept()

    def deploy(self, config: ServeConfig) -> Sequence[str]:
        return deploy_config(config, build_in_tasks)

    def end(self) -> None:
        keep(None)
        api.shutdown()


def start_rest(host: str = "127.0.0.1", port: int = DEFAULT_PORT) -> str:
    """Start the REST API in the session, if it does not run, and return its address."""
    actor = kernel.remote(
        name=NAME, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, max_concurrency=1000, num_cpus=0
    )(RestServer)
    return answer_to(actor.remote().start.remote(host, port, session_token()))  # type: ignore[no-any-return]


def stop_rest() -> None:
    """End the REST API, if it runs."""
    with contextlib.suppress(ValueError):
        kernel.kill(kernel.get_actor(NAME, NAMESPACE))
