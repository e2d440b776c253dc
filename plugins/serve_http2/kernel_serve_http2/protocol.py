"""HTTP/2 for serve's proxies: how a connection begins, and its handler."""

from __future__ import annotations

from kernel_serve.proxy.extra_protocols import ClientConnection
from kernel_serve.proxy.server_state import ServerState

from kernel_serve_http2.frame_lengths import PREFACE
from kernel_serve_http2.limits import HTTP2Limits


class HTTP2:
    """HTTP/2, as serve's proxies take it: see `kernel_serve.proxy.extra_protocols`."""

    alpn = "h2"
    preface = PREFACE

    def __init__(self, limits: HTTP2Limits | None = None) -> None:
        self._limits = limits or HTTP2Limits()

    def connection(self, state: ServerState) -> ClientConnection:
        """Return the handler of a client's connection."""
        from kernel_serve_http2.connection import HTTP2Connection  # here, since h2 takes a while to load

        return HTTP2Connection(state, self._limits)
