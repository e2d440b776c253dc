"""Send copies of requests, whose answers are discarded: a new version is tried with real requests, at no risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_serve.logs import logger
from kernel_serve.routing.dispatcher import RoutedRequest
from kernel_serve.routing.router import Router
from kernel_serve.wire.link import Exchange

_log = logger()

MOST = 256
"""The number of copies that may be under way. Further ones are not sent: slow shadows must cost little."""
NAME = "x-serve-shadow"
"""The header (in gRPC: key of the metadata) that marks a copy."""


class Shadows:
    """Sends the copies of one proxy."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.ongoing = 0
        self.left_out = 0
        """The number of copies that were not sent, because too many were under way."""

    def send(self, key: str, meta: Mapping[str, Any], body: bytes, timeout: float | None) -> None:
        """Send a copy of a whole request to a deployment, without waiting. `timeout` is in seconds."""
        if self.ongoing >= MOST:
            self.left_out += 1
            return
        self.ongoing += 1
        copy = _marked(meta)
        request = RoutedRequest(copy, body, True, self._swallow, self._failed)
        self._router.dispatcher(key).submit(request, timeout)

    def _swallow(self, exchange: Exchange) -> None:
        """Read an answer to its end, and discard it."""

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
        """Count a copy that failed as over. Its error has no effect."""
        self.ongoing -= 1
        _log.debug("a shadow did not answer", error=str(error))


def _marked(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meta of a copy, with the header that marks it."""
    copy = {**meta, "id": f"{meta['id']}-shadow"}
    if meta["type"] == "grpc":
        copy["metadata"] = (*meta["metadata"], (NAME, "1"))
    else:
        scope = meta["scope"]
        copy["scope"] = {**scope, "headers": [*scope["headers"], (NAME.encode(), b"1")]}
    return copy
