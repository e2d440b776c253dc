"""HTTP/1.1 connections of a server without a session: limits of time and size, middlewares, ends of answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from kernel_serve.proxy.http1 import HTTP1Connection
from kernel_serve.proxy.listening import bind
from kernel_serve.proxy.server import HTTPServer
from kernel_serve.proxy.server_state import ServerState
from kernel_serve.proxy.service import ProxyService
from kernel_serve.settings import HTTPOptions
from kernel_serve.testing.programs import StoppedClock
from kernel_serve.traffic.endpoint_table import EndpointTable
from kernel_serve.values import Endpoint, Target

SECONDS = 120.0
LARGE = 10 << 20
ASKED: list[str] = []
"""The paths that the application was asked for."""


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the size of the body, or as the path says."""
    ASKED.append(scope["path"])
    if scope["path"] == "/endless":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(1 << 16), "more_body": True})
    if scope["path"] == "/large":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(LARGE)})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
        if scope["path"] == "/slow":
            await asyncio.sleep(0.001)
    if scope["path"] == "/late":
        await asyncio.sleep(1.2)
    length = b"%d" % (len(str(size)) + (1 if scope["path"] == "/short" else 0))
    own = [(b"x-request-id", b"own")] if scope["path"] == "/own-id" else []
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length), *own]})
    if scope["path"] in ("/short", "/long"):
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    await send({"type": "http.response.body", "body": str(size).encode() * (2 if scope["path"] == "/long" else 1)})


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), SECONDS)

    async def answer(self) -> tuple[int, bytes]:
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), SECONDS)
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return int(head.split()[1]), await asyncio.wait_for(self.reader.readexactly(size), SECONDS)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.01)


def http1(server: HTTPServer) -> list[HTTP1Connection]:
    """Return the server's connections that speak HTTP/1."""
    return [each for each in server.state.connections if isinstance(each, HTTP1Connection)]


class Other(asyncio.Protocol):
    """Another protocol of the port, which says what it was given, and closes."""

    alpn, preface = "other", b"PRI * OTHER\r\n"

    def connection(self, state: ServerState) -> Any:
        return Other()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"given " + data)
        self.transport.close()


def serving(work: Callable[[HTTPServer, Callable[[], Coroutine[Any, Any, Client]]], Any], **options: Any) -> None:
    """Run `work(server, connect)` beside a server with these options."""

    async def go() -> None:
        settings = HTTPOptions(port=0, **options)
        server = HTTPServer(settings, application, protocols=[Other()])
        listening = bind(settings)
        await server.start(listening)
        made: list[Client] = []

        async def connect() -> Client:
            made.append(Client(*await asyncio.open_connection(*listening.getsockname())))
            return made[-1]

        try:
            await work(server, connect)
        finally:
            server.state.now = time.monotonic
            for each in made:
                each.writer.close()
            await server.drain(2)

    asyncio.run(go())


def test_a_connection_belongs_to_the_protocol_whose_first_bytes_it_has() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        other, plain = [await connect() for _ in range(2)]
        for piece in (b"PRI", b" * OTHER\r", b"\nmore"):
            other.writer.write(piece)
            await other.writer.drain()
        assert await other.rest() == b"given PRI * OTHER\r\nmore"
        plain.writer.write(b"PRI * HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await plain.answer())[0] == 400
        plain.writer.write(b"")

    serving(work)


def test_headers_must_come_in_time() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        clock = StoppedClock(server)
        silent, slow, fine, undecided = [await connect() for _ in range(4)]
        undecided.writer.write(b"PRI ")  # as another protocol begins
        slow.writer.write(b"GET / HTTP/1.1\r\nHo")
        fine.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await fine.answer() == (200, b"0")
        await until(
            lambda: len(server.state.connections) == 4 and any(each._reader.head_bytes for each in http1(server))
        )
        clock.pass_by(1.1)
        assert (await slow.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert await silent.rest() == await undecided.rest() == b""
        fine.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await fine.answer() == (200, b"0")

    serving(work, header_timeout_s=1.0)


def test_bodies_must_come_in_time_and_may_take_long() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        def arrived() -> list[int]:
            return sorted(each._reader.arriving.size for each in http1(server) if each._reader.arriving is not None)

        clock = StoppedClock(server)
        stalled, steady = await connect(), await connect()
        for each in (stalled, steady):
            each.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n")
        await until(lambda: arrived() == [0, 0])
        for number in range(1, 12):
            steady.writer.write(b"x")
            await until(lambda number=number: arrived()[-1:] == [number])  # type: ignore[misc]
            clock.pass_by(0.1)
        steady.writer.write(b"x")
        assert await steady.answer() == (200, b"12")
        assert (await stalled.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")

    serving(work, stall_timeout_s=0.6)


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.reader._transport.pause_reading()
        client.writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: bool(server.state.connections))
        await until(lambda: not server.state.connections)

    serving(work, stall_timeout_s=0.3)


@pytest.mark.parametrize("step", [100, 70_000, 1 << 20])
def test_headers_have_a_limit_however_they_come(step: int) -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        for line in (b"GET /%s HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: %s\r\n", b"GET / HTTP/1.1\r\n%s"):
            client = await connect()
            data = line % (b"x" * 70_000 if line[-2:] != b"%s" else b"a: b\r\n" * 12_000) + b"\r\n"
            for at in range(0, len(data), step):
                client.writer.write(data[at : at + step])
                if step == 100:
                    await asyncio.sleep(0)
            assert (await client.rest()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        client = await connect()
        client.writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nX: %s\r\nContent-Length: 500000\r\n\r\n" % (b"x" * 60_000) + bytes(500_000)
        )
        assert await client.answer() == (200, b"500000")

    serving(work)


def test_bodies_have_a_limit() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + bytes(1001))
        assert (await client.rest()).startswith(b"HTTP/1.1 413 ")
        client = await connect()
        client.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + bytes(1000))
        assert await client.answer() == (200, b"1000")

    serving(work, maximum_body_bytes=1000)


def test_thousands_of_pipelined_requests_wait_for_a_reader() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.reader._transport.pause_reading()
        sending = asyncio.ensure_future(_send(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 300_000))
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            await asyncio.sleep(0.01)
            for connection in [each for each in server.state.connections if isinstance(each, HTTP1Connection)]:
                assert len(connection._waiting) < 20_000
                assert connection.transport.get_write_buffer_size() < 1 << 20
        sending.cancel()

    serving(work)


async def _send(client: Client, data: bytes) -> None:
    client.writer.write(data)
    await client.writer.drain()


def test_an_answer_of_another_length_than_it_says_is_cut() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        for path in (b"/short", b"/long"):
            client = await connect()
            client.writer.write(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path * 2)
            assert (await client.rest()).count(b"HTTP/1.1") == 1

    serving(work)


def test_middlewares_see_all_and_bodies_wait_for_them() -> None:
    seen: list[str] = []

    class Own:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope["path"])
            await self.app(scope, receive, send)

    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.writer.write(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (40 << 20))
        sending = asyncio.ensure_future(_send(client, bytes(40 << 20)))
        assert await client.answer() == (200, str(40 << 20).encode())
        await sending
        assert seen == ["/slow"]

    serving(work, middlewares=(Own,))


class Router:
    """Knows three endpoints."""

    endpoints = (
        Endpoint("a", "/app", (Target("a#b"),)), Endpoint("c", "/empty", ()),
        Endpoint("d", "/post", (Target("a#b"),), methods=frozenset(("POST",))),
    )  # fmt: skip
    endpoint_table = EndpointTable(endpoints, Random(1))

    def listen(self, function: Any) -> None:
        pass


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/post", 405), ("/empty", 503), ("/app", None)])
def test_what_goes_nowhere_has_an_id_too(path: str, status: int | None) -> None:
    service = ProxyService(Router(), HTTPOptions())  # type: ignore[arg-type]
    scope = {"type": "http", "path": path, "raw_path": path.encode(), "headers": [], "method": "GET"}
    first, second = service.decide(scope), service.decide(scope)
    assert (first.refusal and first.refusal[0]) == status
    assert first.id != second.id and len(first.id) > 16
    assert service.decide({**scope, "headers": [(b"x-request-id", b"mine")]}, "another").id == "mine"
    assert service.decide(scope, "another").id == "another"


def test_root_path_is_put_back_before_paths() -> None:
    service = ProxyService(Router(), HTTPOptions(root_path="/root"))  # type: ignore[arg-type]
    scope = {"type": "http", "path": "/app/x y", "raw_path": b"/app/x%20y", "headers": [], "method": "GET"}
    told = service.decide(scope).meta["scope"]
    assert (told["root_path"], told["path"], told["raw_path"]) == ("/root/app", "/root/app/x y", b"/root/app/x%20y")


def test_a_client_that_asks_on_and_takes_nothing_is_cut_off() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.reader._transport.pause_reading()
        request = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
        sending = asyncio.ensure_future(_send(client, request * 100_000))
        await until(lambda: any(getattr(each, "must_wait", False) for each in server.state.connections))
        await until(lambda: not server.state.connections)
        sending.cancel()

    serving(work, stall_timeout_s=0.3)


def test_a_client_that_takes_its_time_is_not_cut_off() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await client.reader.readuntil(b"\r\n\r\n")
        clock, size, passed = StoppedClock(server), 0, 0.0
        while piece := await client.reader.read(1 << 18):
            size += len(piece)
            clock.pass_by(0.05)
            passed += 0.05
        assert size == LARGE and passed > 1.5

    serving(work, stall_timeout_s=0.8)


def test_a_body_that_stalls_takes_no_answer_away_from_the_request_before_it() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        client = await connect()
        client.writer.write(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
        client.writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        assert await client.answer() == (200, b"0")
        assert await client.rest() == b""

    serving(work, stall_timeout_s=0.1)


def test_what_comes_behind_the_last_request_is_not_carried_out() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        for path in (b"/", b"/late"):
            client = await connect()
            last = b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path
            client.writer.write(last + b"GET /behind HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            assert (await client.rest()).count(b"HTTP/1.1 200 OK") == 1
        assert "/behind" not in ASKED

    ASKED.clear()
    serving(work)


def test_every_refusal_has_an_id() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        for data, status in (
            (b"POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: 1001\r\n\r\n", 413),
            (b"POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: 2\r\n\r\nx", 408),
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000, 431),
        ):
            client = await connect()
            client.writer.write(data)
            head = (await client.rest()).partition(b"\r\n\r\n")[0]
            assert head.startswith(b"HTTP/1.1 %d " % status)
            id = head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0]
            assert id == b"mine" if b"mine" in data else len(id) > 16

    serving(work, maximum_body_bytes=1000, stall_timeout_s=0.3)


def test_what_an_application_answers_has_one_id() -> None:
    async def work(server: HTTPServer, connect: Any) -> None:
        for path, given, expected in (("/", "", None), ("/", "mine", "mine"), ("/own-id", "mine", "own")):
            client = await connect()
            header = f"X-Request-Id: {given}\r\n" if given else ""
            client.writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n".encode())
            lines = (await client.rest()).decode().split("\r\n")
            [id] = [line.partition(": ")[2] for line in lines if line.startswith("x-request-id: ")]
            assert id == expected if expected else len(id) > 16

    serving(work)
