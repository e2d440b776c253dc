"""The state that a server's connections share: options, clock, request ids, and the set of connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kernel_serve.proxy.framing import Clock
from kernel_serve.proxy.proxied_request import ResponseWriter
from kernel_serve.proxy.request_ids import RequestIds
from kernel_serve.settings import HTTPOptions

RequestMaker = Callable[[dict[str, Any], ResponseWriter], Any]
"""Takes the ASGI scope of a request, and the writer of its answer; returns the handler of the request."""


class ServerState:
    """Holds the state of an HTTP server. A connection adds itself to `connections`, and removes itself at its end."""

    def __init__(self, options: HTTPOptions, make_request: RequestMaker) -> None:
        self.options = options
        self.make_request = make_request
        self.clock = Clock()
        self.request_ids = RequestIds()
        self.connections: set[Any] = set()
        self.closing = False
        """Whether each connection should be closed with the answer that it sends next."""
        self.now: Callable[[], float] = time.monotonic
        """Returns the server's time, in seconds."""
