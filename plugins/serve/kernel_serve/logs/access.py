"""The access log: a line with a JSON object for each request.

On the data path a request costs a tuple in a list. Ten times a second, or after a thousand requests, the loop makes
lines of them, and a thread writes these: a slow disk delays no request.
"""

from __future__ import annotations

import asyncio
import json.encoder
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from kernel_serve.logs.rotating import RotatingFile

FLUSH_SECONDS = 0.1
FLUSH_LINES = 1000
_MOST_WAITING = 64 << 20
"""The most bytes that may wait for the disk. Further lines are dropped; the next line says how many."""
_LONGEST = 2048
"""The number of characters of a path or an id that are written."""


Access = tuple[float, str, str, str, str, int, float, "int | None", "tuple[str, int] | None", str, str, str]
"""One finished request, in the order of a line's fields.

Time (seconds since 1970), request id, method, path, route, status, milliseconds, bytes of the answer (None: not known),
client, deployment, replica, protocol.
"""


class AccessLog:
    """Writes the requests that `note` gets to a file. Used on one event loop."""

    def __init__(self, file: RotatingFile) -> None:
        self._file = file
        self._waiting: list[Access] = []
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="serve access log")
        self._unwritten = 0
        self.dropped = 0
        """The number of lines that were dropped because the disk was too slow."""
        self._untold = 0

    def note(self, access: Access) -> None:
        """Add a request to the log."""
        waiting = self._waiting
        waiting.append(access)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        elif len(waiting) >= FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hand the waiting requests to the thread that writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if self._unwritten > _MOST_WAITING:
            self.dropped += len(waiting)
            self._untold += len(waiting)
            return
        data = lines(waiting)
        if self._untold:
            data = f'{{"lost_lines":{self._untold}}}\n'.encode() + data
            self._untold = 0
        self._unwritten += len(data)
        self._thread.submit(self._write, data)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._unwritten -= len(data)

    def settle(self) -> None:
        """Return when everything that was noted is written."""
        self.flush()
        self._thread.submit(lambda: None).result()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        self._thread.shutdown()
        self._file.close()


_quoted = json.encoder.encode_basestring_ascii
_places: dict[tuple[str, ...], str] = {}
"""Cached JSON of methods, routes, deployments and replicas, of which there are few."""


def lines(accesses: Iterable[Access]) -> bytes:
    """Return the lines for requests."""
    out: list[str] = []
    second, stamp = -1, ""
    known = _places
    if len(known) > 10_000:
        known.clear()
    for moment, id, method, path, route, status, milliseconds, size, client, deployment, replica, protocol in accesses:
        whole = int(moment)
        if whole != second:
            second, stamp = whole, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        few = (method, route, deployment, replica, protocol)
        try:
            place = known[few]
        except KeyError:
            place = known[few] = _place(*few)
        who = f'"{client[0]}:{client[1]}"' if client else '""'
        out.append(
            f'{{"time":"{stamp}.{int((moment - whole) * 1000):03d}Z","request_id":{_quoted(id[:_LONGEST])},{place},'
            f'"path":{_quoted(path[:_LONGEST])},"status":{status},"milliseconds":{milliseconds:.3f},'
            f'"bytes":{"null" if size is None else size},"client":{who}}}\n'
        )
    return "".join(out).encode()


def _place(method: str, route: str, deployment: str, replica: str, protocol: str) -> str:
    return (
        f'"method":{_quoted(method[:32])},"route":{_quoted(route)},"deployment":{_quoted(deployment)},'
        f'"replica":{_quoted(replica)},"protocol":{_quoted(protocol)}'
    )
