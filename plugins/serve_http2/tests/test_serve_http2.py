"""HTTP/2 and HTTP/1 on one port of a real server, with a client that is written frame by frame."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

import h2.connection
import h2.events
import h2.settings
import pytest
from h2.errors import ErrorCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_serve.proxy.extra_protocols import installed_protocols
from kernel_serve.proxy.server import HTTPServer
from kernel_serve.settings import HTTPOptions
from kernel_serve.testing.programs import StoppedClock
from kernel_serve_http2.frame_lengths import FrameLengths
from kernel_serve_http2.limits import HTTP2Limits
from kernel_serve_http2.protocol import HTTP2

SETTINGS = 4
"""The kind of a frame (RFC 9113, 6.5); a frame has its kind behind three bytes of length."""
GET = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "there:80")]


class Client:
    """One connection, whose events are kept by stream (0: the connection's)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection()
        self.headers: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: dict[int, Any] = {}
        self.closed: Any = None
        self.raw = b""
        self.acknowledge = True
        self.credit = 0
        self.reading: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self.h2.initiate_connection()
        await self.flush()
        self.read_on()

    def read_on(self) -> None:
        self.reading = asyncio.create_task(self._read())

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def _read(self) -> None:
        while data := await self.reader.read(1 << 16):
            self.raw += data
            if self.closed is None:
                for event in self.h2.receive_data(data):
                    self._on(event)
                await self.flush()
        if self.closed is None:
            self.closed = "closed"

    def _on(self, event: Any) -> None:
        number = getattr(event, "stream_id", 0)
        if isinstance(event, (h2.events.ResponseReceived, h2.events.InformationalResponseReceived)):
            self.headers[number] = {
                name.decode() if isinstance(name, bytes) else name: value.decode()
                if isinstance(value, bytes)
                else value
                for name, value in event.headers
            }
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[number] = self.bodies.get(number, b"") + event.data
            if self.acknowledge:
                self.h2.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.setdefault(number, "end")
        elif isinstance(event, h2.events.StreamReset):
            self.ended.setdefault(number, ErrorCodes(event.error_code))
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.closed = ErrorCodes(event.error_code)

    async def ask(self, headers: Any = GET, body: bytes | None = None) -> int:
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, headers, end_stream=body is None)
        if body is not None:
            await self.upload(number, body)
        await self.flush()
        return number

    async def upload(self, number: int, body: bytes, end: bool = True) -> None:
        while body:
            size = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(body))
            if size:
                self.h2.send_data(number, body[:size])
                body = body[size:]
                await self.flush()
            else:
                await asyncio.sleep(0.001)
        if end:
            self.h2.end_stream(number)
            await self.flush()

    async def answer(self, number: int) -> tuple[str, bytes]:
        await until(lambda: number in self.ended or self.closed is not None)
        assert self.ended.get(number) == "end", (self.ended, self.closed)
        return self.headers[number][":status"], self.bodies.get(number, b"")

    async def close(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
        self.writer.close()


SECONDS = 120.0


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.001)


Program = Callable[[Client, int, HTTPServer], Coroutine[Any, Any, None]]


def serve(app: Any, program: Program, limits: Any = None, make_request: Any = None, **more: Any) -> None:
    """Run an async test with a connected client, the port and the server; it may take two minutes.

    Requests go to the ASGI application `app`, or to what `make_request` makes.
    """

    async def whole() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        port = listening.getsockname()[1]
        server = HTTPServer(HTTPOptions(**more), app, protocols=[HTTP2(limits)])
        if make_request is not None:
            server.state.make_request = make_request
        await server.start(listening)
        tls = ssl.create_default_context(cafile=more["ssl_certfile"]) if more.get("ssl_certfile") else None
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
        await client.begin()
        try:
            await program(client, port, server)
        finally:
            server.state.now = time.monotonic
            await client.close()
            await server.drain(0)

    asyncio.run(asyncio.wait_for(whole(), SECONDS))


async def answered(send: Any, body: bytes = b"", status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def read(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await answered(send, await read(receive))


def test_the_application_sees_an_ordinary_request_and_http1_goes_on_beside() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await answered(send, b"hello", 201, [(b"X-Kind", b"test"), (b"connection", b"close")])

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        headers = [
            (":method", "GET"), (":path", "/a%20b/c?d=%20e"), (":scheme", "http"), (":authority", "there:80"),
            ("accept", "*/*"), ("cookie", "a=1"), ("cookie", "b=2"),
        ]  # fmt: skip
        number = await client.ask(headers)
        assert await client.answer(number) == ("201", b"hello")
        assert client.headers[number]["x-kind"] == "test" and "connection" not in client.headers[number]
        scope = scopes[0]
        assert (scope["http_version"], scope["method"], scope["path"]) == ("2", "GET", "/a b/c")
        assert (scope["raw_path"], scope["query_string"], scope["scheme"]) == (b"/a%20b/c", b"d=%20e", "http")
        assert list(scope["headers"]) == [(b"host", b"there:80"), (b"accept", b"*/*"), (b"cookie", b"a=1; b=2")]
        assert scope["client"][0] == "127.0.0.1" and scope["server"] == ("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PRI")  # as HTTP/2 begins, but then it does not
        await writer.drain()
        writer.write(b"NT / HTTP/1.1\r\nhost: there\r\nconnection: close\r\n\r\n")
        assert b" 400 " in await reader.read()
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PUT / HTTP/1.1\r\nhost: there\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 201") and scopes[-1]["http_version"] == "1.1"
        writer.close()

    serve(app, program)


def test_the_preface_may_come_in_pieces() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        slow = Client(reader, writer)
        slow.h2.initiate_connection()
        for byte in slow.h2.data_to_send():
            writer.write(bytes([byte]))
            await writer.drain()
        slow.read_on()
        assert await slow.answer(await slow.ask(body=b"x")) == ("200", b"x")
        await slow.close()

    serve(echo, program)


def test_large_bodies_both_ways_and_many_at_a_time() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        bodies = [bytes([number]) * 500_000 for number in range(20)]
        numbers = []
        for _ in bodies:
            number = client.h2.get_next_available_stream_id()
            client.h2.send_headers(number, GET)
            numbers.append(number)
        await asyncio.gather(*[client.upload(number, body) for number, body in zip(numbers, bodies, strict=True)])
        for number, body in zip(numbers, bodies, strict=True):
            assert await client.answer(number) == ("200", body)

    serve(echo, program)


def test_a_client_that_does_not_read_a_stream_holds_up_that_stream_alone() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        if scope["path"] == "/":
            await answered(send, b"quick")
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            sent += 10_000
        await send({"type": "http.response.body", "body": b""})

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        client.acknowledge = False
        slow = await client.ask([(":method", "GET"), (":path", "/slow"), (":scheme", "http"), (":authority", "x")])
        await until(lambda: len(client.bodies.get(slow, b"")) == 65535)
        assert sent <= 80_000
        client.h2.increment_flow_control_window(1 << 20)  # of the connection, not of the stream
        assert await client.answer(await client.ask()) == ("200", b"quick")
        assert sent <= 80_000
        client.h2.increment_flow_control_window(1 << 20, slow)
        await client.flush()
        status, body = await client.answer(slow)
        assert status == "200" and len(body) == 1_000_000

    serve(app, program)


class Slow:
    """A proxied request that holds its client's body until it is let go, and answers with its size."""

    made: list[Slow]

    def __init__(self, scope: Any, reply: Any) -> None:
        self.reply = reply
        self.size = 0
        self.made.append(self)

    def begin(self, body: bytes, end: bool) -> None:
        self.feed(body, end)
        if not end:
            self.reply.hold(True)

    def feed(self, body: bytes, end: bool) -> None:
        self.size += len(body)
        if end:
            self.reply.begin(200, [], str(self.size).encode(), True)

    def gone(self) -> None:
        self.size = -1


def test_a_passage_that_holds_its_client_holds_that_request_alone() -> None:
    Slow.made = []

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        await until(lambda: client.h2.remote_settings.initial_window_size == 256 << 10)
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [(":method", "POST"), *GET[1:]])
        uploading = asyncio.create_task(client.upload(number, b"x" * 1_000_000))
        await until(lambda: client.h2.local_flow_control_window(number) == 0 and len(Slow.made) == 1)
        assert await client.answer(await client.ask(body=b"x" * 10_000)) == ("200", b"10000")
        assert not uploading.done() and Slow.made[0].size < 600_000
        Slow.made[0].reply.hold(False)
        await uploading
        assert await client.answer(number) == ("200", b"1000000")

    serve(echo, program, make_request=Slow)


def test_an_application_that_does_not_read_stops_its_client_alone() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            await go.wait()
        await answered(send, str(len(await read(receive))).encode())

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        await until(lambda: client.h2.remote_settings.initial_window_size == 256 << 10)
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [(":method", "POST"), *GET[1:]])
        uploading = asyncio.create_task(client.upload(number, b"x" * 2_000_000))
        await until(lambda: client.h2.local_flow_control_window(number) == 0)
        assert await client.answer(await client.ask()) == ("200", b"0")
        assert not uploading.done()
        go.set()
        await uploading
        assert await client.answer(number) == ("200", b"2000000")

    serve(app, program)


def test_bodies_that_are_too_large_are_refused() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        expected = ("413", b"the body is larger than 1,000 bytes")
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*GET, ("content-length", "1001")])
        await client.flush()
        assert await client.answer(number) == expected and len(client.headers[number]["x-request-id"]) > 16
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*GET, ("x-request-id", "mine")])
        client.h2.send_data(number, b"x" * 1001)
        await client.flush()
        assert await client.answer(number) == expected and client.headers[number]["x-request-id"] == "mine"
        assert await client.answer(await client.ask(body=b"x" * 1000)) == ("200", b"x" * 1000)

    serve(echo, program, maximum_body_bytes=1000)


def test_an_answer_with_a_line_break_in_a_header_is_a_500() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answered(send, b"hello", headers=[(b"x-evil", b"a\r\nb: c")])

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        assert await client.answer(await client.ask()) == ("500", b"")

    serve(app, program)


def test_a_client_that_gives_a_request_up_is_a_disconnect() -> None:
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        heard.append(await receive())
        try:
            await answered(send, b"nobody hears this")
        except OSError:  # as ASGI 2.4 has it
            heard.append("nobody is there")

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        number = await client.ask()
        await asyncio.sleep(0.02)
        assert heard == []
        client.h2.reset_stream(number, ErrorCodes.CANCEL)
        await client.flush()
        await until(lambda: heard == [{"type": "http.disconnect"}, "nobody is there"])
        await client.ask()
        await asyncio.sleep(0.02)
        await client.close()
        await until(lambda: len(heard) == 4)

    serve(app, program)


def test_an_answer_before_the_body_is_whole_ends_the_upload() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answered(send, b"no", 403)

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, GET)
        await until(lambda: client.h2.remote_settings.initial_window_size == 256 << 10)
        await client.upload(number, b"x" * (256 << 10), end=False)
        assert await client.answer(number) == ("403", b"no")
        assert await client.answer(await client.ask()) == ("403", b"no")

    serve(app, program)


def test_head_and_no_content_have_no_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answered(send, b"hello", 200 if scope["method"] == "HEAD" else 204, [(b"content-length", b"5")])

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        assert await client.answer(await client.ask([(":method", "HEAD"), *GET[1:]])) == ("200", b"")

    serve(app, program)


def test_what_the_application_raises_is_a_500_or_breaks_the_answer_off() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/cut":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            raise ConnectionResetError
        if scope["path"] == "/nothing":
            return
        raise ValueError("secret")

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        for path in ("/", "/nothing"):
            number = await client.ask([GET[0], (":path", path), *GET[2:]])
            assert await client.answer(number) == ("500", b"Internal Server Error")
        cut = await client.ask([GET[0], (":path", "/cut"), *GET[2:]])
        await until(lambda: client.ended.get(cut) == ErrorCodes.INTERNAL_ERROR)
        assert client.bodies[cut] == b"x"

    serve(app, program)


@pytest.mark.parametrize(
    "headers",
    [
        [(":path", "/")],  # no host at all
        [(":path", "/"), (":authority", "")],
        [(":path", "/"), ("host", "")],
        [(":path", "/"), (":authority", "a"), ("host", "b")],
        [(":path", "/"), (":authority", "a"), ("host", "a"), ("host", "a")],
        [(":path", "/"), ("host", "a"), ("host", "a")],
        [(":path", "/"), (":authority", "user@a")],
        [(":path", "/"), (":authority", "a b")],
        [(":path", "a"), (":authority", "a")],
        [(":path", "*"), (":authority", "a")],
        [(":path", ""), (":authority", "a")],
        [(":authority", "a")],
    ],
)
def test_a_request_asks_one_host_for_one_path(headers: list[tuple[str, str]]) -> None:
    asked: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)
        await answered(send)

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        client.h2.config.validate_outbound_headers = False
        headers.sort(key=lambda each: not each[0].startswith(":"))
        number = await client.ask([*GET[:1], (":scheme", "http"), *headers])
        await until(lambda: number in client.ended or client.closed is not None)
        assert ErrorCodes.PROTOCOL_ERROR in (client.ended.get(number), client.closed)
        assert asked == []

    serve(app, program)


def test_a_host_may_be_named_in_either_way() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append([value for name, value in scope["headers"] if name == b"host"])
        await answered(send)

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        for named in ([(":authority", "a:1")], [("host", "a:1")], [(":authority", "a:1"), ("host", "a:1")]):
            assert (await client.answer(await client.ask([*GET[:3], *named])))[0] == "200"
        assert (await client.answer(await client.ask([(":method", "OPTIONS"), (":path", "*"), *GET[2:]])))[0] == "200"
        assert seen == [[b"a:1"]] * 3 + [[b"there:80"]]

    serve(app, program)


def test_who_expects_to_be_asked_for_the_body_is_asked() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*GET, ("expect", "100-continue")])
        await client.flush()
        await until(lambda: client.headers.get(number, {}).get(":status") == "100")
        await client.upload(number, b"asked for")
        assert await client.answer(number) == ("200", b"asked for")

    serve(echo, program)


@pytest.mark.parametrize(
    "frames",
    [
        b"\x00\x00\x05\x00\x01\x00\x00\x00\x00hello",  # data on stream 0
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100,  # a frame larger than allowed
        b"\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",  # headers that are no HPACK
        b"\x00\x00\x00\x01\x05\x00\x00\x00\x02",  # a stream with an even number
        b"\x00\x00\x03\x04\x00\x00\x00\x00\x00abc",  # settings of a wrong size
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 4,
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x01pingping",  # a ping on a stream
    ],
)
def test_what_is_no_http2_ends_the_connection_and_nothing_else(frames: bytes) -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        assert await client.answer(await client.ask(body=b"x")) == ("200", b"x")
        client.writer.write(frames)
        await until(lambda: client.closed is not None)
        other = Client(*await asyncio.open_connection("127.0.0.1", port))
        await other.begin()
        assert await other.answer(await other.ask(body=b"x")) == ("200", b"x")
        await other.close()

    serve(echo, program)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), max_size=20), st.integers(1, 30))
def test_frames_that_are_too_long_are_seen_at_once_however_they_are_cut(lengths: list[int], piece: int) -> None:
    stream, first_bad = b"preface", None
    for length in lengths:
        stream += length.to_bytes(3, "big")
        if first_bad is None and length > 30:
            first_bad = len(stream)
        stream += bytes(6 + length)
    watch, seen = FrameLengths(30, len(b"preface")), 0
    while seen < len(stream):
        fits = watch.fit(stream[seen : seen + piece])
        seen += piece
        assert fits == (first_bad is None or seen < first_bad)
        if not fits:
            break


def test_headers_that_are_too_large_end_the_connection() -> None:
    asked: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)
        await echo(scope, receive, send)

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        few, many = ([(f"x-{index}", "y" * 4000) for index in range(number)] for number in (10, 20))
        assert await client.answer(await client.ask([*GET, *few])) == ("200", b"")
        number = await client.ask([*GET, *many])
        await until(lambda: client.closed is not None)
        assert client.closed == ErrorCodes.PROTOCOL_ERROR
        assert number not in client.headers and len(asked) == 1
        await until(lambda: not server.state.connections)

    serve(app, program)


def test_a_client_that_only_gives_requests_up_is_dropped() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        given_up = 0
        while client.closed is None:
            number = await client.ask()
            client.h2.reset_stream(number)
            await client.flush()
            given_up += 1
            await asyncio.sleep(0.001)
        assert client.closed == ErrorCodes.ENHANCE_YOUR_CALM and given_up > 7

    serve(app, program, HTTP2Limits(resets=7))


def test_a_client_that_pings_without_reading_is_dropped() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        mute = socket.socket()
        mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        mute.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(mute, ("127.0.0.1", port))
        client.h2.ping(b"12345678")
        ping = client.h2.data_to_send()
        fresh = h2.connection.H2Connection()
        fresh.initiate_connection()
        await loop.sock_sendall(mute, fresh.data_to_send())
        with pytest.raises(ConnectionError):
            while True:
                await loop.sock_sendall(mute, ping * 1000)
        mute.close()

    serve(echo, program, HTTP2Limits(unsent=10_000))


def test_a_connection_without_requests_ends_after_a_while() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await go.wait()
        await answered(send, b"late")

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        clock = StoppedClock(server)
        busy = Client(*await asyncio.open_connection("127.0.0.1", port))
        await busy.begin()
        number = await busy.ask()
        await begun.wait()
        await until(lambda: len(server.state.connections) == 2)
        clock.pass_by(60)
        await until(lambda: client.closed is not None)
        assert client.closed == ErrorCodes.NO_ERROR and not client.headers
        await until(lambda: len(server.state.connections) == 1)
        assert busy.closed is None  # its answer is still to come
        go.set()
        assert await busy.answer(number) == ("200", b"late")
        clock.pass_by(60)
        await until(lambda: busy.closed is not None)
        assert busy.closed == ErrorCodes.NO_ERROR
        await busy.close()

    serve(app, program, header_timeout_s=50.0, keep_alive_timeout_s=50.0)


def test_bodies_must_come_in_time_and_may_take_long() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        def arrived() -> dict[int, int]:
            streams: dict[int, Any] = {}
            for each in server.state.connections:
                streams.update(getattr(each, "_streams", {}))
            return {number: stream._size for number, stream in streams.items()}

        clock = StoppedClock(server)
        stalled, steady = (client.h2.get_next_available_stream_id() + more for more in (0, 2))
        for number in (stalled, steady):
            client.h2.send_headers(number, GET)
        await client.flush()
        await until(lambda: arrived() == {stalled: 0, steady: 0})
        for size in range(1, 15):
            await client.upload(steady, b"x", end=False)
            await until(lambda size=size: arrived()[steady] == size)  # type: ignore[misc]
            clock.pass_by(0.1)
        assert await client.answer(stalled) == ("408", b"the body did not come in time")
        await client.upload(steady, b"y")
        assert await client.answer(steady) == ("200", b"x" * 14 + b"y")

    serve(echo, program, stall_timeout_s=0.5)


def test_answers_must_be_taken_in_time_and_may_take_long() -> None:
    gone: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await read(receive)
        try:
            await answered(send, b"x" * 1_000_000)
            await receive()
        finally:
            gone.append(scope["path"])

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        client.acknowledge = False
        stalled, steady = [await client.ask([GET[0], (":path", path), *GET[2:]]) for path in ("/stalled", "/steady")]
        await until(lambda: sum(map(len, client.bodies.values())) == 65_535)
        clock = StoppedClock(server)
        client.h2.increment_flow_control_window(1 << 20)  # of the connection, not of a stream
        for credit in range(125_535, 1_060_000, 60_000):
            client.h2.increment_flow_control_window(60_000, steady)
            await client.flush()
            size = min(credit, 1_000_000)
            await until(lambda size=size: len(client.bodies.get(steady, b"")) == size)  # type: ignore[misc]
            clock.pass_by(0.1)
        await until(lambda: steady in client.ended)
        assert len(client.bodies[steady]) == 1_000_000
        await until(lambda: stalled in client.ended)
        assert client.ended == {steady: "end", stalled: ErrorCodes.CANCEL}
        await until(lambda: len(gone) == 2)

    serve(app, program, stall_timeout_s=0.5)


def test_a_request_that_is_given_up_before_it_was_looked_at_harms_nobody() -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*GET, ("expect", "100-continue")])
        client.h2.reset_stream(number)  # in the same piece
        assert await client.answer(await client.ask(body=b"x")) == ("200", b"x")

    serve(echo, program)


@pytest.mark.parametrize("length", ["1_0", "+10", "ten", "10, 10", ""])
def test_a_length_is_a_number(length: str) -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        client.h2.config.validate_outbound_headers = False
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, [*GET, ("content-length", length)])
        client.h2.send_data(number, b"x" * 10, end_stream=True)
        await client.flush()
        await until(lambda: number in client.ended or client.closed is not None)
        assert ErrorCodes.PROTOCOL_ERROR in (client.ended.get(number), client.closed) and not client.headers

    serve(echo, program)


def test_a_server_that_ends_answers_what_is_under_way_and_takes_no_more() -> None:
    go, begun = asyncio.Event(), []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.append(True)
        await go.wait()
        await answered(send, b"last")

    async def program(client: Client, port: int, server: HTTPServer) -> None:
        number = await client.ask()
        await until(lambda: begun == [True])
        ending = asyncio.create_task(server.drain())
        await until(lambda: client.closed == ErrorCodes.NO_ERROR)
        assert number not in client.ended and not ending.done()
        go.set()
        await ending
        await until(lambda: client.raw.count(b"last") == 1)  # the client's own h2 takes nothing after GOAWAY

    serve(app, program)


def test_tls_negotiates_http2(certificate: tuple[str, str]) -> None:
    async def program(client: Client, port: int, server: HTTPServer) -> None:
        assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        assert await client.answer(await client.ask(body=b"secret")) == ("200", b"secret")
        context = ssl.create_default_context(cafile=certificate[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nhost: there\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert (await reader.readexactly(9))[3] == SETTINGS, "the server greets first"
        writer.close()

    serve(echo, program, ssl_certfile=certificate[0], ssl_keyfile=certificate[1])


def test_proxies_find_it_where_it_is_installed() -> None:
    assert [type(each) for each in installed_protocols()] == [HTTP2]
