"""Pass the events of WebSockets on, both ways, until one side closes."""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Coroutine
from typing import Any

from kernel_serve.errors import ServeError
from kernel_serve.failing import status_of
from kernel_serve.proxy.request_ids import HEADER
from kernel_serve.replica.asgi import receive_message, to_wire
from kernel_serve.routing.dispatcher import Dispatcher
from kernel_serve.wire.link import PIECE, Exchange

_INTERNAL = 1011
"""The close code for an error of the server: RFC 6455, 7.4."""
_HEARING_SECONDS = 10.0
"""Seconds that an application has to take what its client has sent, once the client has gone."""
_LOOK_SECONDS = 1.0
"""Seconds between two checks whether a client has gone of which the application takes nothing."""
_ACCEPTED, _REFUSED = 101, 403


async def pass_websocket(
    dispatcher: Dispatcher, meta: dict[str, Any], receive: Any, send: Any, connection: Any = None
) -> tuple[int, str]:
    """Connect a client with a replica; return, at the end, the HTTP status and the replica's id.

    `connection` is the client's transport. It shows that the client has gone while the application takes nothing.
    """
    await receive()  # the event "websocket.connect"
    try:
        exchange = await dispatcher.open(meta, b"", False)
        up = asyncio.get_running_loop().create_task(_up(exchange, receive, connection))
        try:
            return await _down(exchange, send, up, (HEADER, meta["id"].encode("latin-1"))), exchange.link.peer
        finally:
            up.cancel()
            exchange.abort({"reason": "cancelled"})
    except ServeError as error:
        status, headers = status_of(error)
        await refuse(send, status, f"{error} (request {meta['id']})", headers, meta["id"])
        return status, ""


async def refuse(send: Any, status: int, text: str, headers: list[tuple[bytes, bytes]], id: str) -> None:
    """Answer a client's request for a WebSocket with an HTTP status, and why."""
    headers = [*headers, (HEADER, id.encode("latin-1"))]
    with contextlib.suppress(OSError):  # the client has gone
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": text.encode()})


async def _up(exchange: Exchange, receive: Any, connection: Any) -> None:
    over = False
    while not over:
        message = await receive()
        over = message["type"] == "websocket.disconnect"
        meta, body = to_wire(message)
        try:
            if len(body) <= PIECE:
                exchange.send(meta, body, over)
                if exchange.must_wait:
                    await _taken(exchange, exchange.drain(), connection)
            else:
                await _taken(exchange, exchange.send_all(meta, body, over), connection)
        except ServeError:
            return  # `_down` gets the same error


async def _taken(exchange: Exchange, sending: Coroutine[Any, Any, None], connection: Any) -> None:
    """Wait until the application takes what is sent. If the client has gone, that time is limited."""
    task = asyncio.ensure_future(sending)
    try:
        while not task.done() and not has_left(connection):
            await asyncio.wait([task], timeout=_LOOK_SECONDS)
        if not task.done():
            await asyncio.wait([task], timeout=_HEARING_SECONDS)
        if not task.done():
            exchange.abort({"reason": "cancelled"})
        await task
    finally:
        task.cancel()


def has_left(connection: Any) -> bool:
    """Return whether the other end of a transport will send no more, though what it has sent is not all read."""
    if connection is None or connection.is_closing():
        return connection is not None
    poll = select.poll()
    poll.register(connection.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


async def _down(exchange: Exchange, send: Any, up: asyncio.Task[None], id: tuple[bytes, bytes]) -> int:
    """Send the client what the application sends, until that ends.

    Raises ServeError if it is lost before it has answered.

    What it sends when the client has gone is dropped. If the exchange were ended instead, the application would be
    cancelled before it gets the disconnect from `up`. Only an application that has not taken the events before does not
    get it.
    """

    def give_up() -> None:
        if not up.done():
            exchange.abort({"reason": "cancelled"})

    status = _REFUSED
    end = gone = False
    while not end:
        try:
            message, end = await receive_message(exchange)
        except ServeError:
            if status == _REFUSED and exchange.failure is not None and not gone:
                raise
            message, end = {"type": "websocket.close", "code": _INTERNAL}, True
        if message is None or gone:
            continue
        if message["type"] in ("websocket.accept", "websocket.http.response.start"):
            status = message.get("status", _ACCEPTED)
            message["headers"] = [*message.get("headers", ()), id]
        try:
            await send(message)
        except OSError:  # `send` raises it when the client has gone
            gone = True
            asyncio.get_running_loop().call_later(_HEARING_SECONDS, give_up)
    return status
