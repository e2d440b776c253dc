"""Find the value of the longest prefix of a path, where prefixes end at the borders of segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


def normal(prefix: str) -> str:
    """Return `prefix` in the form for look-ups: without a slash at its end. The prefix of all paths is ""."""
    return prefix.rstrip("/")


class Prefixes(Generic[T]):
    """Values by prefix. `/a/b` is a prefix of `/a/b` and `/a/b/c`, not of `/a/bc`; `/` is one of every path."""

    def __init__(self, by_prefix: Mapping[str, T]) -> None:
        self._found = {normal(prefix): value for prefix, value in by_prefix.items()}
        self._depth = max((prefix.count("/") for prefix in self._found), default=0)

    def find(self, path: str) -> T | None:
        """Return the value of the longest prefix of `path`; None without one."""
        if not path.startswith("/"):
            return None
        found = self._found
        if path.count("/") > self._depth:
            # No prefix has more segments than the longest one: begin with as many.
            end = 0
            for _ in range(self._depth):
                end = path.find("/", end + 1)
            path = path[: path.find("/", end + 1)]
        while path:
            value = found.get(path)
            if value is not None:
                return value
            path = path[: path.rfind("/")]
        return found.get("")
