"""Read the requests of an HTTP/1.1 connection, by llhttp (httptools), and check the limits of their heads."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from kernel_serve.logs import logger
from kernel_serve.proxy.authority import is_authority
from kernel_serve.proxy.http1_request import HTTP1Request, head_again, header_of
from kernel_serve.settings import HTTPOptions

_log = logger()
_LOOKED_AT = frozenset((b"content-length", b"expect", b"host", b"transfer-encoding"))
_SLASH, _HASH = b"/#"
Headers = list[tuple[bytes, bytes]]


class RefusedError(Exception):
    """The bytes are no request that can be taken. It has the status to answer, and why. Nothing more is read."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Taker(Protocol):
    """Takes what is read, as it is read. Its methods may raise RefusedError."""

    def take(self, incoming: HTTP1Request) -> None:
        """Take a request whose head is complete."""

    def take_body(self, incoming: HTTP1Request, body: bytes) -> None:
        """Take a piece of its body."""

    def take_end(self, incoming: HTTP1Request) -> None:
        """End it: it is complete."""

    def take_websocket(self, incoming: HTTP1Request, data: bytes) -> None:
        """Take a request for a WebSocket, instead of the above. `data` is its head and all that came behind."""


class RequestReader:
    """The reader of one connection. The parser calls the methods `on_...`."""

    __slots__ = (
        "_before", "_chunk", "_chunked", "_client", "_expects", "_good_host", "_headers", "_hosts", "_most_body",
        "_most_head", "_parser", "_scheme", "_server", "_taker", "_too_large", "_upgrading", "_url", "arriving",
        "head_bytes",
    )  # fmt: skip

    def __init__(self, taker: Taker, options: HTTPOptions, scheme: str, client: Any, server: Any) -> None:
        self._taker = taker
        self._most_head = options.maximum_header_bytes
        self._most_body = options.maximum_body_bytes
        self._scheme, self._client, self._server = scheme, client, server
        self._url = b""
        self._headers: Headers = []
        self._expects = self._too_large = self._chunked = False
        self._hosts = 0
        self._good_host = b""
        """The host that was checked last: a client hardly ever has another one."""
        self._chunk = self._before = 0
        self._upgrading: HTTP1Request | None = None
        self.arriving: HTTP1Request | None = None
        """The request whose head is complete, and whose body is not."""
        self.head_bytes = 0
        """The bytes of an incomplete head or trailer, 0 without one.

        Bytes that came in one piece before it are included.
        """
        self._parser = self._new_parser()

    def feed(self, data: bytes) -> None:
        """Take bytes. Raises RefusedError for bytes that are no request, and for a head that is too large."""
        size = self._chunk = len(data)
        if self.head_bytes or self.arriving is not None:
            self.head_bytes += size
        else:
            self._before = 0
        behind = -1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            behind = upgrade.args[0]
        except httptools.HttpParserError as error:
            raise _refusal(error) from error
        if behind >= 0:
            self._change(memoryview(data)[behind:])
        if self.head_bytes and self.head_bytes - self._before > self._most_head:
            raise RefusedError(431, "the headers are too large")

    def close(self) -> None:
        """Stop reading for good."""
        self._parser = None

    def _change(self, rest: memoryview) -> None:
        """Hand over a request for a WebSocket. A request for another upgrade is taken as if it asked for none."""
        while True:
            incoming, self._upgrading = self._upgrading, None
            assert incoming is not None
            if header_of(incoming, b"upgrade").lower() == b"websocket":
                self._taker.take_websocket(incoming, head_again(incoming.scope) + rest)
                return
            head = head_again(incoming.scope, b"upgrade")
            self._parser = self._new_parser()
            self._chunk = len(head) + len(rest)
            try:
                self._parser.feed_data(head)
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                raise _refusal(error) from error

    def _new_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.head_bytes = self._chunk
        self._url = b""
        self._expects = self._too_large = self._chunked = False
        self._hosts = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of its target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which comes behind the body and is only checked."""
        name = name.lower()
        if name in _LOOKED_AT:
            if name == b"content-length":
                self._too_large = int(value) > self._most_body
            elif name == b"expect":
                self._expects = value.lower() == b"100-continue"
            elif name == b"host":
                self._hosts += 1
                if value != self._good_host:
                    self._look_at_host(value)
            else:
                self._chunked = True
                if value.lower() != b"chunked":
                    raise RefusedError(501, f"Transfer-Encoding {value!r} is not supported: only chunked is")
        self._headers.append((name, value))

    def _look_at_host(self, host: bytes) -> None:
        if not is_authority(host):
            raise RefusedError(400, f"the Host header is {host!r}, which can't be a host, or host:port")
        self._good_host = host

    def on_headers_complete(self) -> None:
        """Take the request: all headers are there."""
        parser, target, version = self._parser, self._url, self._parser.get_http_version()
        method = parser.get_method().decode("latin-1")
        if self.head_bytes > self._most_head and self._head_size() > self._most_head:
            raise RefusedError(431, "the headers are too large")
        if self._hosts != 1 or version != "1.1":
            self._check(version)
        raw_path, _, query = target.partition(b"?")
        if target[0] != _SLASH or _HASH in target:
            raw_path, query = self._parts(target, method)
        path = raw_path.decode("latin-1")
        headers, self._headers = self._headers, []
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "http_version": version,
            "scheme": self._scheme,
            "client": self._client,
            "server": self._server,
            "root_path": "",
        }
        self.head_bytes = 0
        expects = self._expects and version == "1.1"
        incoming = HTTP1Request(scope, parser.should_keep_alive(), expects, self._too_large)
        if parser.should_upgrade():
            if method == "CONNECT":
                raise RefusedError(400, "CONNECT is not supported: this server forwards no connections")
            self._upgrading = incoming
            return
        self.arriving = incoming
        self._taker.take(incoming)

    def on_body(self, body: bytes) -> None:
        """Take a piece of its body."""
        if self.arriving is not None:
            self.head_bytes = 0
            self._taker.take_body(self.arriving, body)

    def on_message_complete(self) -> None:
        """End the request: it is complete."""
        incoming, self.arriving = self.arriving, None
        self.head_bytes, self._before = 0, self._chunk
        if incoming is not None:
            self._taker.take_end(incoming)

    def _check(self, version: str) -> None:
        if version not in ("1.1", "1.0"):
            raise RefusedError(505, f"HTTP/{version} is not supported: use HTTP/1.1")
        if self._chunked and version == "1.0":
            raise RefusedError(400, "HTTP/1.0 knows no Transfer-Encoding")
        if self._hosts > 1 or (version == "1.1" and not self._hosts):
            raise RefusedError(400, f"a request of HTTP/{version} has one Host header; this one has {self._hosts}")

    def _parts(self, target: bytes, method: str) -> tuple[bytes, bytes]:
        """Return the path and the query of a target. The host in a whole URL replaces the Host header."""
        if target == b"*" and method == "OPTIONS":
            return target, b""
        url = httptools.parse_url(target)
        if not (url.host or target.startswith(b"/")):
            raise RefusedError(400, f"{method} {target.decode('latin-1')!r} has no path: it must begin with '/'")
        if url.host:
            host = b"[%b]" % url.host if b":" in url.host else url.host
            authority = host if url.port is None else b"%b:%d" % (host, url.port)
            self._headers[:] = [(b"host", authority), *[each for each in self._headers if each[0] != b"host"]]
        return url.path or b"/", url.query or b""

    def _head_size(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)


def _refusal(error: httptools.HttpParserError) -> RefusedError:
    """Return the reason for which a parser has stopped: what it read, or what was raised when it read.

    The latter is the context of the parser's error, unless that is raised while another error is being handled.
    """
    cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
    if isinstance(cause, RefusedError):
        return cause
    if isinstance(cause, httptools.HttpParserError):
        return RefusedError(400, f"this is not HTTP: {cause}")
    _log.error("a request could not be taken", exc_info=cause)
    return RefusedError(500, "Internal Server Error")
