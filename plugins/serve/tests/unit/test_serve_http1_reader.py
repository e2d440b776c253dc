"""Requests that are taken from an HTTP/1.1 connection, those that are refused, and the texts of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_serve.proxy.http1_reader import RefusedError, RequestReader
from kernel_serve.proxy.http1_request import HTTP1Request
from kernel_serve.settings import HTTPOptions


class Taken:
    """Keeps what is read, and counts the bytes of bodies."""

    def __init__(self) -> None:
        self.requests: list[HTTP1Request] = []
        self.websockets: list[bytes] = []
        self.ended = 0
        self.fails = False

    def take(self, incoming: HTTP1Request) -> None:
        if self.fails:
            raise ValueError("our own mistake")
        self.requests.append(incoming)

    def take_body(self, incoming: HTTP1Request, body: bytes) -> None:
        incoming.size += len(body)

    def take_end(self, incoming: HTTP1Request) -> None:
        self.ended += 1

    def take_websocket(self, incoming: HTTP1Request, data: bytes) -> None:
        self.websockets.append(data)


def reading(*pieces: bytes, **options: Any) -> Taken:
    """Read these pieces."""
    taken = Taken()
    reader = RequestReader(taken, HTTPOptions(**options), "http", None, None)
    for piece in pieces:
        reader.feed(piece)
    return taken


def refused(*pieces: bytes, **options: Any) -> tuple[int, str]:
    """Read these pieces, the last of which is refused."""
    with pytest.raises(RefusedError) as caught:
        reading(*pieces, **options)
    return caught.value.status, str(caught.value)


def test_a_request_has_one_host() -> None:
    assert refused(b"GET / HTTP/1.1\r\n\r\n") == (400, "a request of HTTP/1.1 has one Host header; this one has 0")
    twice = b"Host: a\r\nhost: a\r\n\r\n"
    assert refused(b"GET / HTTP/1.1\r\n" + twice) == (400, "a request of HTTP/1.1 has one Host header; this one has 2")
    assert refused(b"GET / HTTP/1.0\r\n" + twice) == (400, "a request of HTTP/1.0 has one Host header; this one has 2")
    assert reading(b"GET / HTTP/1.0\r\n\r\n").ended == reading(b"GET / HTTP/1.1\r\nHost:\r\n\r\n").ended == 1


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"a@b", b"a,b c", b"a?b", b"\xc3\xbc", b'"a"', b"a\\b"])
def test_a_host_is_a_host(host: bytes) -> None:
    said = f"the Host header is {host!r}, which can't be a host, or host:port"
    assert refused(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host) == (400, said)


@pytest.mark.parametrize("host", [b"a", b"a-1.b_c:80", b"127.0.0.1:8000", b"[::1]:80", b"xn--bcher-kva.example"])
def test_hosts_that_are_some(host: bytes) -> None:
    taken = reading(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
    assert taken.requests[0].scope["headers"] == [(b"host", host)]


@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        (b"http://there:81/a?b=c", b"there:81", b"/a", b"b=c"),
        (b"http://there", b"there", b"/", b""),
        (b"https://[::1]/x", b"[::1]", b"/x", b""),
        (b"/a?b?c", b"here", b"/a", b"b?c"),
        (b"/a?b#c", b"here", b"/a", b"b"),
        (b"//there/a", b"here", b"//there/a", b""),
    ],
)
def test_a_whole_url_says_better_than_the_header_for_whom_it_is(
    target: bytes, host: bytes, path: bytes, query: bytes
) -> None:
    scope = reading(b"GET %b HTTP/1.1\r\nX: y\r\nHost: here\r\n\r\n" % target).requests[0].scope
    assert sorted(scope["headers"]) == [(b"host", host), (b"x", b"y")]
    assert (scope["raw_path"], scope["query_string"]) == (path, query)


def test_other_targets_and_versions() -> None:
    assert reading(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").requests[0].scope["path"] == "*"
    for line in (b"GET *", b"GET foo", b"CONNECT a:80", b"CONNECT /"):
        assert refused(line + b" HTTP/1.1\r\nHost: a\r\n\r\n")[0] == 400
    for version in (b"0.9", b"2.0"):
        said = (505, f"HTTP/{version.decode()} is not supported: use HTTP/1.1")
        assert refused(b"GET / HTTP/%b\r\nHost: a\r\n\r\n" % version) == said


def test_heads_have_a_limit_also_behind_what_is_large() -> None:
    large = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + bytes(200_000)
    taken = reading(large + b"GET / HTTP/1.1\r\nHo", b"st: a\r\n\r\n")
    assert taken.ended == 2
    too_large = (431, "the headers are too large")
    assert refused(large + b"GET / HTTP/1.1\r\nHost: a\r\nX: y", b"y" * 65_000, b"y" * 1_000) == too_large
    assert refused(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 66_000) == too_large
    many = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 5_000
    assert reading(many + b"GET").ended == 5_000


def test_trailers_are_no_headers_and_have_a_limit_as_extensions_of_chunks_have() -> None:
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    taken = reading(chunked, b"1;a=b\r\nx\r\n0\r\nX-User: root\r\n\r\n")
    assert taken.ended == 1 and taken.requests[0].size == 1
    assert [name for name, _ in taken.requests[0].scope["headers"]] == [b"host", b"transfer-encoding"]
    for beginning in (b"0\r\nX: ", b"0\r\n", b"1;"):
        endless = b"y: z\r\n" * 1_000 if beginning == b"0\r\n" else b"y" * 6_000
        assert refused(chunked, beginning, *[endless] * 20) == (431, "the headers are too large")
    small = reading(chunked, *[b"1\r\nx\r\n" * 1_000] * 100)
    assert small.requests[0].size == 100_000


def test_codings_that_are_not_known_are_refused() -> None:
    coded = b"POST / HTTP/1.%b\r\nHost: a\r\nTransfer-Encoding: %b\r\n\r\n0\r\n\r\n"
    assert reading(coded % (b"1", b"Chunked")).ended == 1
    said = (501, "Transfer-Encoding b'gzip, chunked' is not supported: only chunked is")
    assert refused(coded % (b"1", b"gzip, chunked")) == said
    assert refused(coded % (b"0", b"chunked")) == (400, "HTTP/1.0 knows no Transfer-Encoding")


def test_a_websocket_is_handed_over_as_it_came() -> None:
    socket = b"GET %b HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\r\n"
    assert reading(socket % b"/x?y=z").websockets == [socket % b"/x?y=z"]
    assert reading(socket % b"http://a/x").websockets == [socket % b"/x"]


def test_thousands_of_upgrades_to_what_is_not_spoken_are_ordinary_requests() -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    socket = request.replace(b"x\r\n", b"websocket\r\n")
    taken = reading(request * 5_000 + socket + b"behind")
    assert taken.ended == 5_000 and len(taken.websockets) == 1
    assert taken.websockets[0].endswith(b"\r\n\r\nbehind")
    assert b"upgrade" not in dict(taken.requests[0].scope["headers"])


def test_what_is_no_http_behind_an_upgrade_is_the_clients_mistake() -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    for nonsense in (b"nonsense\r\n", request + b"nonsense\r\n"):
        status, said = refused(request + nonsense)
        assert status == 400 and said.startswith("this is not HTTP: ")


def test_only_who_speaks_1_1_is_asked_for_the_body() -> None:
    head = b"POST / HTTP/1.%d\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    assert [reading(head % minor).requests[0].expects for minor in (0, 1)] == [False, True]


def test_a_mistake_of_ours_is_not_the_clients() -> None:
    taken = Taken()
    taken.fails = True
    reader = RequestReader(taken, HTTPOptions(), "http", None, None)
    with pytest.raises(RefusedError, match="Internal Server Error") as caught:
        reader.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert caught.value.status == 500
    assert refused(b"no such thing\r\n")[0] == 400
