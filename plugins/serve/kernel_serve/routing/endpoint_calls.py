"""Calls of endpoints: which deployment answers is decided when they are sent."""

from __future__ import annotations

import asyncio

from kernel_serve.errors import NotServingError, ServeError
from kernel_serve.routing.router import process_router
from kernel_serve.routing.sending import FAILED, HandleCall

_NO_KEYS = {"headers": (), "client": None, "query_string": b""}
"""A call has nothing by which it could be sticky."""


class EndpointCall(HandleCall):
    """A call of one of the deployments among which an endpoint's requests are split.

    Its `key` is the endpoint's name, until it is known which of them that is.
    """

    def begin(self) -> None:
        """Choose, and send the call. If the controller has not told the endpoints yet, wait until it has."""
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
