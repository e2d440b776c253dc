"""Requests with the same key go to the same target, and a change of weights moves as few keys as possible.

Each target draws a lot for each key, by a hash that is the same in every process; the largest wins. The lots are drawn
so that the share of keys that a target wins is its weight, and no lot depends on other targets: when a target gains
weight, it wins keys from the others, and no key moves among these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from math import log
from typing import Any
from urllib.parse import unquote_plus

from kernel_serve.errors import DeploymentError

KeyReader = Callable[[Mapping[str, Any]], "bytes | None"]
"""Takes an ASGI scope; returns the key, or None for a request without one."""


class Draw:
    """Chooses one of targets, with names and weights above 0, by a key."""

    def __init__(self, targets: Iterable[tuple[str, float]]) -> None:
        self._targets = [
            (index, weight, blake2b(name.encode(), digest_size=8))
            for index, (name, weight) in enumerate(targets)
            if weight > 0
        ]

    def of(self, key: bytes) -> int:
        """Return the number of the target for `key`."""
        best, chosen = -1.0, -1
        for index, weight, of_name in self._targets:
            lot = of_name.copy()
            lot.update(key)
            even = (int.from_bytes(lot.digest(), "big") + 0.5) / 2**64
            # An exponential waiting time with rate `weight`: the shortest is this one's with probability weight/total.
            height = -weight / log(even) if even < 1 else float("inf")
            if height > best:
                best, chosen = height, index
        return chosen


def key_reader(sticky: str) -> KeyReader | None:
    """Return a function that reads the key that `sticky` names; None if requests are not sticky.

    `sticky` is `header:NAME`, `cookie:NAME`, `query:NAME` or `client`. Raises DeploymentError for any other text.
    """
    if not sticky:
        return None
    kind, _, name = sticky.partition(":")
    if kind == "client" and not name:
        return _client
    makers = {"header": _header, "cookie": _cookie, "query": _query}
    if kind not in makers or not name:
        raise DeploymentError(
            f"sticky is 'header:NAME', 'cookie:NAME', 'query:NAME' or 'client', or '' for not at all, not {sticky!r}"
        )
    return makers[kind](name)


def _client(scope: Mapping[str, Any]) -> bytes | None:
    client = scope.get("client")
    return client[0].encode() if client and client[0] else None


def _header(name: str) -> KeyReader:
    wanted = name.lower().encode("latin-1")

    def read(scope: Mapping[str, Any]) -> bytes | None:
        for key, value in scope["headers"]:
            if key == wanted:
                return value or None
        return None

    return read


def _cookie(name: str) -> KeyReader:
    wanted = name.encode("latin-1")

    def read(scope: Mapping[str, Any]) -> bytes | None:
        for key, value in scope["headers"]:
            if key != b"cookie" or wanted not in value:
                continue
            for part in value.split(b";"):
                cookie, _, content = part.partition(b"=")
                if cookie.strip() == wanted:
                    return content.strip() or None
        return None

    return read


def _query(name: str) -> KeyReader:
    def read(scope: Mapping[str, Any]) -> bytes | None:
        for part in scope.get("query_string", b"").decode("latin-1").split("&"):
            key, _, value = part.partition("=")
            if unquote_plus(key) == name:
                return unquote_plus(value).encode() or None
        return None

    return read
