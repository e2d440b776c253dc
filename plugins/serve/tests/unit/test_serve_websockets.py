"""Passing a WebSocket on: the proxy's side with a client that is played, the replica's over a link in this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from kernel_serve.errors import BackPressureError
from kernel_serve.proxy import websockets
from kernel_serve.proxy.websockets import has_left, pass_websocket
from kernel_serve.replica.asgi import WebSocketExchange
from kernel_serve.wire.link import Exchange, RequestLink


class Way:
    """Stands in for a dispatcher: whatever is opened comes to `replicas`."""

    def __init__(self) -> None:
        self.replicas: asyncio.Queue[Exchange] = asyncio.Queue()
        self._here = RequestLink(lambda data: self._there.feed(data))
        self._there = RequestLink(
            lambda data: self._here.feed(data), lambda exchange, *event: self.replicas.put_nowait(exchange)
        )

    async def open(self, meta: Any, body: bytes, end: bool) -> Exchange:
        """Open an exchange."""
        return self._here.open(meta, body, end)


@pytest.mark.parametrize("closes", [True, False])
def test_an_application_hears_that_its_client_is_gone_though_it_still_sends(closes: bool) -> None:
    async def play() -> tuple[int, str]:
        gone, first = asyncio.Event(), [{"type": "websocket.connect"}]
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            if first:
                return first.pop()
            await gone.wait()
            return {"type": "websocket.disconnect", "code": 1001}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message["type"])
            if message["type"] != "websocket.accept":
                raise ConnectionResetError("the client is gone")

        way: Any = Way()
        passing = asyncio.create_task(pass_websocket(way, {"id": "7"}, receive, send))
        exchange = await way.replicas.get()
        socket = WebSocketExchange(exchange)
        await socket.receive()
        await socket.send({"type": "websocket.accept"})
        while not sent:
            await asyncio.sleep(0)
        for _ in range(3):
            await socket.send({"type": "websocket.send", "text": "too late"})
        while len(sent) < 2:
            await asyncio.sleep(0)
        gone.set()
        assert await socket.receive() == {"type": "websocket.disconnect", "code": 1001}
        assert not exchange.closed
        if closes:
            await socket.send({"type": "websocket.close", "code": 1000})
        else:
            exchange.abort({"reason": "the replica ends"})
        status = await passing
        assert sent == ["websocket.accept", "websocket.send"], "nothing is sent to a client that is gone"
        return status

    assert asyncio.run(asyncio.wait_for(play(), 120)) == (101, "")


def test_what_is_sent_to_a_client_that_is_known_to_be_gone_is_an_error() -> None:
    async def play() -> None:
        way: Any = Way()
        client = await way.open({}, b"", False)
        socket = WebSocketExchange(await way.replicas.get())
        await socket.send({"type": "websocket.send", "text": "heard"})
        client.send({"type": "websocket.disconnect", "code": 1001}, b"", end=True)
        with pytest.raises(OSError, match="the client is gone"):
            await socket.send({"type": "websocket.send", "text": "too late"})
        await socket.send({"type": "websocket.close"})

    asyncio.run(asyncio.wait_for(play(), 120))


def test_an_application_that_takes_nothing_and_sends_on_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websockets, "_HEARING_SECONDS", 0.1)

    async def play() -> tuple[int, str]:
        flood = asyncio.Event()

        async def receive() -> dict[str, Any]:
            flood.set()
            return {"type": "websocket.receive", "bytes": bytes(1 << 20)}

        async def send(message: dict[str, Any]) -> None:
            raise ConnectionResetError("the client is gone")

        way: Any = Way()
        passing = asyncio.create_task(pass_websocket(way, {"id": "7"}, receive, send))
        socket = WebSocketExchange(exchange := await way.replicas.get())
        await flood.wait()
        while not exchange.closed:
            with contextlib.suppress(OSError):
                await socket.send({"type": "websocket.send", "text": "anybody there?"})
            await asyncio.sleep(0.01)
        return await passing

    assert asyncio.run(asyncio.wait_for(play(), 120)) == (403, "")


@pytest.mark.parametrize("refused", [True, False])
def test_a_client_that_nothing_can_answer_is_told_when_to_try_again(refused: bool) -> None:
    async def play() -> tuple[tuple[int, str], list[dict[str, Any]]]:
        sent: list[dict[str, Any]] = []
        first = [{"type": "websocket.connect"}]

        async def receive() -> dict[str, Any]:
            return first.pop() if first else await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        way: Any = Way()
        if refused:
            way.open = no_room
        passing = asyncio.create_task(pass_websocket(way, {"id": "7"}, receive, send))
        if not refused:
            (await way.replicas.get()).abort({"reason": "the replica ends"})
        return await passing, sent

    async def no_room(meta: Any, body: bytes, end: bool) -> Exchange:
        raise BackPressureError("too many wait")

    status, sent = asyncio.run(asyncio.wait_for(play(), 120))
    assert status == (503, "")
    assert [each["type"] for each in sent] == ["websocket.http.response.start", "websocket.http.response.body"]
    assert sent[0]["headers"] == [(b"retry-after", b"1" if refused else b"2"), (b"x-request-id", b"7")]
    assert sent[1]["body"].endswith(b"(request 7)")


class Connection:
    """A transport whose other end does not read."""

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str) -> Any:
        return self._socket


@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_an_application_that_neither_takes_nor_sends_ends_with_its_client(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(websockets, "_HEARING_SECONDS", 0.1)
    monkeypatch.setattr(websockets, "_LOOK_SECONDS", 0.01)

    async def play() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "websocket.receive", "bytes": bytes(size)}

        async def send(message: dict[str, Any]) -> None:
            raise ConnectionResetError("the client is gone")

        here, there = socket.socketpair()
        there.sendall(b"what nobody reads")
        way: Any = Way()
        passing = asyncio.create_task(pass_websocket(way, {"id": "7"}, receive, send, Connection(here)))
        exchange = await way.replicas.get()
        (ahead,) = way._here._exchanges.values()
        while not ahead.must_wait:
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.TimeoutError):  # with its client it may stay as long as it likes
            await asyncio.wait_for(asyncio.shield(passing), 0.3)
        assert not exchange.closed
        there.close()
        while not exchange.closed:
            await asyncio.sleep(0.01)
        assert (await passing)[0] == 403
        here.close()

    asyncio.run(asyncio.wait_for(play(), 120))


def test_who_is_gone_is_seen_though_not_read() -> None:
    here, there = socket.socketpair()
    connection = Connection(here)
    assert not has_left(connection) and not has_left(None)
    there.sendall(b"x")
    assert not has_left(connection)
    there.shutdown(socket.SHUT_WR)
    assert has_left(connection)
    connection.closing = True
    here.close()
    assert has_left(connection)
    there.close()
