"""One request over HTTP/2: its body is sent to a replica, and the answer to the client."""

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
"""The largest body in bytes that is read before its request is sent on: such a request can be sent again."""
_OF_CONNECTIONS = frozenset(
    (b"connection", b"date", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
"""Headers that HTTP/2 does not have (RFC 9113, 8.2.2), or that the proxy sets."""
_WITHOUT_BODY = frozenset((204, 304))
_FOREVER = float("inf")


class StreamConnection(Protocol):
    """The part of the connection that a stream needs."""

    def send_head(self, stream: HTTP2Stream, headers: Headers, end: bool) -> None:
        """Send an answer's headers; with `end` the answer has no body."""

    def send_body(self, stream: HTTP2Stream) -> None:
        """Send as much of an answer's body as the client takes."""

    def taken(self, number: int, size: int) -> None:
        """Allow the client to send `size` bytes more, in this stream and in all together."""

    def reset(self, number: int, code: int) -> None:
        """Reset a stream with an error code."""

    def ended(self, stream: HTTP2Stream) -> None:
        """Forget a stream that is over."""


class HTTP2Stream:
    """A request, and the `ResponseWriter` of its answer."""

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
        """The pieces of the answer that the client does not take yet."""
        self.must_wait = False
        self.body_over = False
        """Whether the client has sent all of the request."""
        self.started = False
        """Whether the head of the answer is sent."""
        self.answer_over = False
        """Whether the proxied request has written all of the answer."""
        self.over = False
        """Whether the answer is sent, or is not needed any more."""
        self.deadline = 0.0
        """The time (of the server) by which the client must have sent, or have taken, more."""
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
        """End the request: it is complete."""
        self.body_over = True
        self.was_heard()
        if self.over or self._refused:
            return
        if self.proxied is not None:
            self.proxied.feed(b"", True)
        else:
            self._begin(True)

    def gone(self) -> None:
        """Cancel the request: the client has gone, or has reset it."""
        if not self.over:
            self._finish()
            if self.proxied is not None:
                self.proxied.gone()

    def refuse(self, status: int, text: str) -> None:
        """Answer a request that can't be taken with a text."""
        self._refused = True
        id = self._state.request_ids.of(self.scope["headers"]).encode("latin-1")
        self.begin(status, [(b"content-type", b"text/plain; charset=utf-8"), (REQUEST_ID, id)], text.encode(), True)

    def was_heard(self) -> None:
        """Set a new deadline, if the client is waited for: it has just sent or taken something."""
        waits = self.must_wait or not (self.body_over or self._held)
        self.deadline = self._state.now() + self._state.options.stall_timeout_s if waits else _FOREVER

    def expire(self) -> None:
        """End the request or its answer: the client is late."""
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
        """Note that all of the answer is sent."""
        self._finish()
        self._connection.ended(self)

    def _finish(self) -> None:
        self.over = True
        self.must_wait = False
        self.out.clear()
        self._body.clear()
        self.hold(False)


NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 2, 7, 8, 11
"""Error codes of RFC 9113, 7."""


def too_large(options: HTTPOptions) -> str:
    """Return the text for a body that is too large."""
    return f"the body is larger than {options.maximum_body_bytes:,} bytes"


def answer_headers(status: int, given: Headers) -> Headers | None:
    """Return an answer's headers in HTTP/2's form; None if one of them would be more than one header."""
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

    None if their path is missing or no text, if they name no host or several (RFC 9113, 8.3.1), or if their
    content-length is no number.
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
