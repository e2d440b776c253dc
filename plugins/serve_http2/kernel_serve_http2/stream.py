"""One request over HTTP/2: its body on its way to a replica, and the answer to the client."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol
from urllib.parse import unquote

from kernel_serve.proxy.authority import is_authority
from kernel_serve.proxy.request_ids import HEADER as REQUEST_ID
from kernel_serve.proxy.server_state import ServerState
from kernel_serve.settings import HTTPOptions

Headers = list[tuple[bytes, bytes]]

_WHOLE_BODY = 256 << 10
"""Bodies up to this size are read before the request is sent on: such a request can be sent again."""
_OF_CONNECTIONS = frozenset(
    (b"connection", b"date", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
"""Headers that HTTP/2 does not know (RFC 9113, 8.2.2), or that are the proxy's."""
_WITHOUT_BODY = frozenset((204, 304))
_FOREVER = float("inf")


class StreamConnection(Protocol):
    """What a stream needs of the connection that it belongs to."""

    def send_head(self, stream: HTTP2Stream, headers: Headers, end: bool) -> None:
        """Send an answer's headers, which are all of it if `end`."""

    def send_body(self, stream: HTTP2Stream) -> None:
        """Send of an answer's body what the client is ready for."""

    def taken(self, number: int, size: int) -> None:
        """Let the client send `size` bytes more, of this stream and altogether."""

    def reset(self, number: int, code: int) -> None:
        """Break a stream off."""

    def ended(self, stream: HTTP2Stream) -> None:
        """A stream is over."""


class HTTP2Stream:
    """It is the `ResponseWriter` of its proxied request."""

    __slots__ = (
        "_bodiless", "_body", "_connection", "_held", "_refused", "_size", "_state", "_unacknowledged", "answer_over",
        "body_over", "deadline", "must_wait", "number", "out", "over", "proxied", "scope", "started",
    )  # fmt: skip

    def __init__(self, connection: StreamConnection, state: ServerState, number: int, scope: dict[str, Any]) -> None:
        self._connection = connection
        self._state = state
        self.number = number
        self.scope = scope
        self.proxied: Any = None
        self._body: list[bytes] = []
        self._size = 0
        self._held = self._refused = False
        self._unacknowledged = 0
        self._bodiless = scope["method"] == "HEAD"
        self.out: deque[memoryview] = deque()
        """What the client is not yet ready for."""
        self.must_wait = False
        self.body_over = False
        """The client has sent all of the request."""
        self.started = False
        """The head of the answer is sent."""
        self.answer_over = False
        """The proxied request has given all of the answer."""
        self.over = False
        """The answer is sent, or nobody waits for it."""
        self.deadline = 0.0
        """When the client must have sent, or have taken, more (the server's time)."""
        self.was_heard()

    # -- from the client -------------------------------------------------------------------------------------------

    def feed(self, body: bytes, size: int) -> None:
        """Take a piece of the body, which counts as `size` bytes of the client's credit."""
        self._size += len(body)
        self.was_heard()
        if not self.over and not self._refused:
            if self.proxied is not None:
                self.proxied.feed(body, False)
            else:
                self._body.append(body)
                if self._size > self._state.options.maximum_body_bytes:
                    self.refuse(413, too_large(self._state.options))
                elif self._size >= _WHOLE_BODY:
                    self._begin(False)
        if self._held and not self.over:
            self._unacknowledged += size
        else:
            self._connection.taken(self.number, size)

    def complete(self) -> None:
        """The request is all there."""
        self.body_over = True
        self.was_heard()
        if self.over or self._refused:
            return
        if self.proxied is not None:
            self.proxied.feed(b"", True)
        else:
            self._begin(True)

    def gone(self) -> None:
        """Nobody waits for the answer any more."""
        if not self.over:
            self._finish()
            if self.proxied is not None:
                self.proxied.gone()

    def refuse(self, status: int, text: str) -> None:
        """Answer, in words, a request that can't be taken."""
        self._refused = True
        id = self._state.request_ids.of(self.scope["headers"]).encode("latin-1")
        self.begin(status, [(b"content-type", b"text/plain; charset=utf-8"), (REQUEST_ID, id)], text.encode(), True)

    def was_heard(self) -> None:
        """The client has sent something, or has taken something: if it is its turn again, it has its time again."""
        waits = self.must_wait or not (self.body_over or self._held)
        self.deadline = self._state.now() + self._state.options.stall_timeout_s if waits else _FOREVER

    def expire(self) -> None:
        """The client's time is over."""
        proxied, self.proxied = self.proxied, None
        if proxied is not None:
            proxied.gone()
        if self.started:
            self._connection.reset(self.number, CANCEL)
            self._finish()
            self._connection.ended(self)
        else:
            self.refuse(408, "the body did not come in time")

    def _begin(self, end: bool) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self.proxied = self._state.make_request(self.scope, self)
        self.proxied.begin(body, end)

    # -- from the proxied request ----------------------------------------------------------------------------------

    def begin(self, status: int, headers: Headers, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        if self.over or self.started:
            return
        self.started = True
        self._bodiless = self._bodiless or status in _WITHOUT_BODY
        given = answer_headers(status, headers)
        if given is None:
            given, body, end = [(b":status", b"500"), (b"content-length", b"0")], b"", True
        alone = end and (self._bodiless or not body)
        self.answer_over = alone
        self._connection.send_head(self, given, alone)
        if not alone and not self.over:
            self.go_on(body, end)

    def go_on(self, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        if self.over or self.answer_over:
            return
        if body and not self._bodiless:
            self.out.append(memoryview(body))
        self.answer_over = end
        self._connection.send_body(self)

    def break_off(self) -> None:
        """See `ResponseWriter`."""
        if not self.over:
            self._connection.reset(self.number, INTERNAL_ERROR)
            self._finish()
            self._connection.ended(self)

    def hold(self, wait: bool) -> None:
        """See `ResponseWriter`."""
        self._held = wait
        self.was_heard()
        if not wait and self._unacknowledged:
            size, self._unacknowledged = self._unacknowledged, 0
            self._connection.taken(self.number, size)

    def sent(self) -> None:
        """All of the answer is sent."""
        self._finish()
        self._connection.ended(self)

    def _finish(self) -> None:
        self.over = True
        self.must_wait = False
        self.out.clear()
        self._body.clear()
        self.hold(False)


NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11
"""Codes of RFC 9113, 7."""


def too_large(options: HTTPOptions) -> str:
    """Return what is said of a body that is too large."""
    return f"the body is larger than {options.maximum_body_bytes:,} bytes"


def answer_headers(status: int, given: Headers) -> Headers | None:
    """Return an answer's headers as HTTP/2 has them; None if one of them would be more than one."""
    headers = [(b":status", str(status).encode())]
    for name, value in given:
        name = name.lower()
        if any(each in name or each in value for each in (b"\r", b"\n", b"\0")) or name.startswith(b":"):
            return None
        if name not in _OF_CONNECTIONS:
            headers.append((name, value.strip()))
    return headers


def scope_of(headers: Headers, root_path: str, client: Any, server: Any, scheme: str) -> dict[str, Any] | None:
    """Return the ASGI scope of a request with these headers.

    None if they ask for no path, or one that is no text, or name no host, or several (RFC 9113, 8.3.1), or no length
    that is a number.
    """
    pseudo: dict[bytes, bytes] = {}
    plain: Headers = []
    cookies: list[bytes] = []
    for name, value in headers:
        if name.startswith(b":"):
            pseudo[name] = value
        elif name == b"cookie":
            cookies.append(value)
        else:
            plain.append((name, value))
    target, method = pseudo.get(b":path", b""), pseudo[b":method"]
    if not (target.startswith(b"/") and target.isascii()) and (target, method) != (b"*", b"OPTIONS"):
        return None
    hosts = [value for name, value in plain if name == b"host"]
    authority = pseudo.get(b":authority", b"".join(hosts[:1]))
    if method == b"CONNECT" or not authority or hosts not in ([], [authority]) or not is_authority(authority):
        return None
    lengths = [value for name, value in plain if name == b"content-length"]
    if len(lengths) > 1 or not all(each.isdigit() for each in lengths):
        return None
    plain = [(b"host", authority), *[each for each in plain if each[0] != b"host"]]
    if cookies:
        plain.append((b"cookie", b"; ".join(cookies)))
    raw_path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "http_version": "2",
        "method": method.decode("latin-1"),
        "scheme": scheme,
        "path": unquote(raw_path.decode()),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": root_path,
        "headers": plain,
        "client": client,
        "server": server,
    }
