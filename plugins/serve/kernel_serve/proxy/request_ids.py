"""The ids of requests, by which answers, logs and traces of one request are found."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable

HEADER = b"x-request-id"


class RequestIds:
    """Makes ids for requests that have none from their clients."""

    def __init__(self) -> None:
        self._beginning = os.urandom(8).hex()
        self._count = itertools.count(1)

    def new(self) -> str:
        """Return an id that no other request has."""
        return f"{self._beginning}-{next(self._count):08x}"

    def of(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the id that a request's headers have, or a new one."""
        given = next((value for name, value in headers if name == HEADER), b"")
        return given.decode("latin-1") or self.new()
