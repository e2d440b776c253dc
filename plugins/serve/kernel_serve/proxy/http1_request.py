"""A request of an HTTP/1.1 connection, from its head on."""

from __future__ import annotations

from typing import Any


class HTTP1Request:
    """A request that comes in."""

    __slots__ = ("body", "complete", "expects", "keep_alive", "proxied", "scope", "size", "too_large")

    def __init__(self, scope: dict[str, Any], keep_alive: bool, expects: bool, too_large: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects = expects
        """The client sends the body when it is told to go on."""
        self.too_large = too_large
        """Its length, as its headers have it, is more than may be."""
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False
        self.proxied: Any = None


def head_again(scope: dict[str, Any], without: bytes = b"") -> bytes:
    """Return a request's head as it came, but for one header."""
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    target = scope["raw_path"] + query
    lines = [b"%b %b HTTP/%b\r\n" % (scope["method"].encode(), target, scope["http_version"].encode())]
    lines += [b"%b: %b\r\n" % (name, value) for name, value in scope["headers"] if name != without]
    return b"".join((*lines, b"\r\n"))


def header_of(incoming: HTTP1Request, name: bytes) -> bytes:
    """Return a header's value, empty if there is none."""
    return next((value for each, value in incoming.scope["headers"] if each == name), b"")


def address_of(found: Any) -> Any:
    """Return an address as ASGI has it."""
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None
