"""Calls of endpoints: their deployment is chosen when they are sent."""

from __future__ import annotations

import asyncio

from kernel_serve.errors import NotServingError, ServeError
from kernel_serve.routing.router import process_router
from kernel_serve.routing.sending import FAILED, HandleCall

_NO_KEYS = {"headers": (), "client": None, "query_string": b""}
"""The part of a scope by which endpoints are sticky; a call has nothing there."""


class EndpointCall(HandleCall):
    """Represents a call of one of the deployments among which an endpoint's requests are split.

    Its `key` is the endpoint's name, until the deployment is chosen.
    """

    def begin(self) -> None:
        """Choose the deployment, and send the call, once the endpoints are known."""
        router = process_router()
        if not router.knows_endpoints:
            self._resolving = asyncio.get_running_loop().create_task(self._begin_later())
            return
        try:
            served = router.endpoint_table.named(self.key)
            if served is None:
                raise NotServingError(f"there is no endpoint {self.key!r}")
            self.key = served.target(_NO_KEYS)
        except ServeError as error:
            self._end(FAILED, error)
            return
        super().begin()

    async def _begin_later(self) -> None:
        await process_router().await_endpoints()
        self.begin()
