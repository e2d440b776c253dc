"""Requests and responses of HTTP/1.1, as a policy server and its clients read them."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kernel_rllib.serving.http_connection import ConnectionLostError, HttpConnection
from kernel_rllib.serving.http_requests import LONGEST_LINE, MOST_HEADERS, BadRequestError, read_head, response

HEAD = b"POST /v1/calls?x=1 HTTP/1.1\r\nHost: here\r\nContent-TYPE:  application/JSON; charset=utf-8\r\n\r\nbody"


def test_a_head_is_read_and_the_body_left() -> None:
    file = io.BytesIO(HEAD)
    head = read_head(file)
    assert head is not None
    assert (head.command, head.target, head.keeps) == ("POST", "/v1/calls?x=1", True)
    assert head.headers == {"host": "here", "content-type": "application/JSON; charset=utf-8"}
    assert head.content_type == "application/json"
    assert file.read() == b"body"
    assert read_head(file) is None


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.1\nConnection: keep-alive\n\n", True),
    ],
)
def test_whether_further_requests_follow(head: bytes, keeps: bool) -> None:
    found = read_head(io.BytesIO(head))
    assert found is not None and found.keeps is keeps


def test_headers_of_one_name_are_joined() -> None:
    found = read_head(io.BytesIO(b"GET / HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n"))
    assert found is not None and found.headers == {"content-length": "1, 2"}  # no length: it is refused


@pytest.mark.parametrize(
    ("head", "status", "message"),
    [
        (b"hello\r\n", 400, "'hello' is no line of a request: it has a method, a path and a version"),
        (b"GET / HTTP/2\r\n\r\n", 505, "the request is of 'HTTP/2': only HTTP/1.1 is understood"),
        (b"GET / HTTP/1.1\r\nnone\r\n\r\n", 400, "'none' is no header: it has a name, a colon and a value"),
        (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400, "' c' is no header: it has a name, a colon and a value"),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400, "'A : b' is no header: it has a name, a colon and a value"),
        (b"GET /" + b"a" * LONGEST_LINE, 414, "a line of the head has more than 65536 bytes"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * LONGEST_LINE, 431, "a line of the head has more than 65536 bytes"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MOST_HEADERS + 1), 431, "there are more than 100 headers"),
    ],
)
def test_what_is_no_request_is_refused(head: bytes, status: int, message: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        read_head(io.BytesIO(head))
    assert (raised.value.status, str(raised.value)) == (status, message)


def test_a_response_says_how_long_it_is_and_whether_more_may_come() -> None:
    head, _, body = response(200, "text/plain", b"found", keeps=False).partition(b"\r\n\r\n")
    assert body == b"found"
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 200 OK" and lines[1].startswith("Date: ") and lines[1].endswith(" GMT")
    assert lines[2:] == ["Content-Type: text/plain", "Content-Length: 5", "Connection: close"]
    assert b"Content-Length" not in response(204, "text/plain", None, keeps=True)


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], HttpConnection]]:
    """Return connections to a server that reads a request and sends these bytes."""
    made: list[HttpConnection] = []
    threads: list[threading.Thread] = []

    def connect(answer: bytes) -> HttpConnection:
        listening = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, listening:
                connection.recv(1 << 16)
                connection.sendall(answer)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        made.append(HttpConnection("127.0.0.1", listening.getsockname()[1], 20.0))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()
    for thread in threads:
        thread.join(20)


@pytest.mark.parametrize(
    ("answer", "expected", "stays_open"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: A/B; c=d\r\nContent-Length: 2\r\n\r\nhi", (200, "a/b", b"hi"), True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, "", b""), True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", (400, "", b""), True),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: t\r\n\r\n",
            (200, "", b"abc0123456789"),
            True,
        ),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", (200, "", b"a"), False),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", (200, "", b"to the end"), False),
    ],
)
def test_a_response_is_read(
    answering: Callable[[bytes], HttpConnection], answer: bytes, expected: Any, stays_open: bool
) -> None:
    connection = answering(answer)
    assert connection.request("POST", "/", b"{}", {"Accept": "any"}) == expected
    assert connection.is_open is stays_open


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "it has closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "it has closed the connection after 3 of 9 bytes"),
        (b"SSH-2.0-x\r\n", "what it answered is no response of HTTP: it begins with b'SSH-2.0-x\\r\\n'"),
        (b"HTTP/1.1 200 OK\r\nnone\r\n\r\n", "is no response of HTTP: 'none' is no header"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "is no response of HTTP: invalid literal"),
    ],
)
def test_what_is_no_response_is_named(
    answering: Callable[[bytes], HttpConnection], answer: bytes, message: str
) -> None:
    with pytest.raises(ConnectionLostError) as raised:
        answering(answer).request("GET", "/", None, {})
    assert message in str(raised.value)
