"""The protocol to which a connection may change: WebSocket, which is uvicorn's.

It is made when a connection first asks for it: loading uvicorn takes a twentieth of a second.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kernel_serve.proxy.transports import hand_over
from kernel_serve.settings import HTTPOptions

CONNECTION = "kernel_serve.connection"
"""The key of a WebSocket's transport in its scope."""


class Others:
    """Makes protocols that call `application` (ASGI)."""

    def __init__(self, options: HTTPOptions, application: Any) -> None:
        import uvicorn
        from uvicorn.server import ServerState

        self._config = uvicorn.Config(
            application,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            interface="asgi3",
            timeout_keep_alive=int(options.keep_alive_timeout_s),
        )
        self._config.load()
        self._state = ServerState()

    @property
    def connections(self) -> set[Any]:
        """The living connections."""
        return self._state.connections

    @property
    def tasks(self) -> set[Any]:
        """The running tasks of the application."""
        return self._state.tasks

    def websocket(self) -> Any:
        """Return a protocol for a connection that becomes a WebSocket."""
        made: Any = self._config.ws_protocol_class
        return made(config=self._config, server_state=self._state, app_state={})


def begin_websocket(transport: asyncio.Transport, protocol: Any, data: bytes) -> None:
    """Hand a connection over to a protocol of WebSockets, with the request that came by it.

    Raises ValueError if the protocol does not understand the request, since the protocol would not say so; the
    connection stays the caller's then.
    """
    before = transport.get_protocol()
    try:
        hand_over(transport, protocol, data)
        if not protocol.handshake_initiated:
            reason = protocol.conn.handshake_exc
            raise ValueError(str(getattr(reason, "__cause__", None) or reason))
        if hasattr(protocol, "scope"):  # the application is about to be called with it
            protocol.scope[CONNECTION] = transport
    except Exception as error:
        protocol.connection_lost(error)
        transport.set_protocol(before)
        raise ValueError(str(error) or "its first bytes are no frames of a WebSocket") from error
