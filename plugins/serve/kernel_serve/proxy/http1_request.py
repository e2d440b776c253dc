"""A request of an HTTP/1.1 connection, from its head on."""

from __future__ import annotations

from typing import Any


class HTTP1Request:
    """A request that is being read or answered."""

    __slots__ = ("body", "complete", "expects", "keep_alive", "proxied", "scope", "size", "too_large")

    def __init__(self, scope: dict[str, Any], keep_alive: bool, expects: bool, too_large: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects = expects
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.too_large = too_large
        """Whether its content-length exceeds the limit."""
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        self.proxied: Any = None


def head_again(scope: dict[str, Any], without: bytes = b"") -> bytes:
    """Return a request's head as it came, without the header `without`."""
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    target = scope["raw_path"] + query
    lines = [b"%b %b HTTP/%b\r\n" % (scope["method"].encode(), target, scope["http_version"].encode())]
    lines += [b"%b: %b\r\n" % (name, value) for name, value in scope["headers"] if name != without]
    return b"".join((*lines, b"\r\n"))


def header_of(incoming: HTTP1Request, name: bytes) -> bytes:
    """Return a header's value, b"" without it."""
    return next((value for each, value in incoming.scope["headers"] if each == name), b"")


def address_of(found: Any) -> Any:
    """Return a socket's address in ASGI's form."""
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None
