"""Copies of requests, whose answers nobody gets: how a new version does with real requests, at no risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_serve.logs import logger
from kernel_serve.routing.dispatcher import RoutedRequest
from kernel_serve.routing.router import Router
from kernel_serve.wire.link import Exchange

_log = logger()

MOST = 256
"""Copies that are under way at a time. What is more is not copied: shadows that are slow must cost little."""
NAME = "x-serve-shadow"
"""By this header (in gRPC: key of the metadata) a deployment can tell that nobody gets its answer."""


class Shadows:
    """Sends the copies of one proxy."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.ongoing = 0
        self.left_out = 0
        """Copies that were not sent, for there were too many."""

    def send(self, key: str, meta: Mapping[str, Any], body: bytes, timeout: float | None) -> None:
        """Send a copy of a whole request to a deployment, without waiting."""
        if self.ongoing >= MOST:
            self.left_out += 1
            return
        self.ongoing += 1
        copy = _marked(meta)
        request = RoutedRequest(copy, body, True, self._swallow, self._failed)
        self._router.dispatcher(key).submit(request, timeout)

    def _swallow(self, exchange: Exchange) -> None:
        """Take an answer that nobody wants, to its end."""

        def take() -> None:
            end = False
            while exchange.has_event and not end:
                _, _, end = exchange.take()
            if end or exchange.failure is not None:
                exchange.wake = None
                self.ongoing -= 1

        exchange.wake = take
        take()

    def _failed(self, error: Exception) -> None:
        """A shadow that fails harms nobody."""
        self.ongoing -= 1
        _log.debug("a shadow did not answer", error=str(error))


def _marked(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meta of a copy, in which the deployment sees that it is one."""
    copy = {**meta, "id": f"{meta['id']}-shadow"}
    if meta["type"] == "grpc":
        copy["metadata"] = (*meta["metadata"], (NAME, "1"))
    else:
        scope = meta["scope"]
        copy["scope"] = {**scope, "headers": [*scope["headers"], (NAME.encode(), b"1")]}
    return copy
