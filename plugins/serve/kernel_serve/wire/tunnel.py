"""Links to other machines: the bytes of a link as calls of the replica's actor, which kernel encrypts and checks.

Bytes for the replica go by one call after the other, in order; bytes from it come as a stream of the actor.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

from kernel_serve.errors import said_by
from kernel_serve.routing.loops import data_loop
from kernel_serve.wire.link import Exchange, RequestLink
from kernel_spec.errors import KernelError

_AHEAD = 8
"""The number of calls that may be under way in one direction."""


class _Sender:
    """Collects what is written in one turn of the loop, and sends it in one call."""

    def __init__(self, actor: Any, id: str) -> None:
        self._call = actor.tunnel_feed
        self._id = id
        self._waiting: list[bytes] = []
        self._under_way = 0
        self.link: RequestLink | None = None
        self.lost: Callable[[str], None] = lambda reason: None

    def write(self, data: bytes) -> None:
        self._waiting.append(data)
        if len(self._waiting) == 1 and self._under_way < _AHEAD:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        if not self._waiting:
            return
        data, self._waiting = b"".join(self._waiting), []
        self._under_way += 1
        self._pause()
        try:
            sent = self._call.remote(self._id, data).as_future()
        except KernelError as error:
            self.lost(said_by(error))
            return
        sent.add_done_callback(self._sent)

    def _sent(self, future: asyncio.Future[Any]) -> None:
        self._under_way -= 1
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self.lost(said_by(error))
            return
        self._pause()
        self._flush()

    def _pause(self) -> None:
        full = self._under_way >= _AHEAD
        if self.link is not None and self.link.paused != full:
            self.link.pause(full)


async def connect(
    actor: Any, on_notice: Callable[[Any], None], on_load: Callable[[int], None], on_lost: Callable[[str], None]
) -> RequestLink:
    """Return a new link to the replica behind `actor`, on any node. Raises KernelError when the replica has ended."""
    id = secrets.token_hex(8)
    sender = _Sender(actor, id)
    link = sender.link = RequestLink(sender.write, None, on_notice, on_load, on_lost)
    sender.lost = link.lost
    stream = actor.tunnel.remote(id)
    first = await anext(stream)
    if await first is not None:
        raise KernelError("a tunnel must begin with None")
    reading = asyncio.get_running_loop().create_task(_read(stream, link))
    _readers.add(reading)
    reading.add_done_callback(_readers.discard)
    return link


_readers: set[asyncio.Task[None]] = set()


async def _read(stream: Any, link: RequestLink) -> None:
    try:
        async for ref in stream:
            data = await ref
            del ref  # the next one may take long to come, and until then this one would keep an object in the store
            link.feed(data)
            del data
        link.lost("the replica closed the link")
    except KernelError as error:
        link.lost(said_by(error))


class TunnelEnds:
    """The tunnels of a replica. `feed` and `run` are for the actor's event loop; links belong to the data loop."""

    def __init__(
        self,
        on_open: Callable[[Exchange, Any, bytes, bool], None],
        on_made: Callable[[RequestLink], None],
        on_lost: Callable[[RequestLink], None],
    ) -> None:
        self._on_open, self._on_made, self._on_lost = on_open, on_made, on_lost
        self._links: dict[str, RequestLink] = {}

    def feed(self, id: str, data: bytes) -> None:
        """Take bytes of a tunnel."""
        link = self._links.get(id)
        if link is not None:
            data_loop().call_soon_threadsafe(link.feed, data)

    async def run(self, id: str) -> AsyncIterator[bytes | None]:
        """Yield None at once, then the bytes for the other end, until that has ended."""
        here, there = asyncio.get_running_loop(), data_loop()
        waiting: list[bytes] = []
        more = asyncio.Event()

        def written(data: bytes) -> None:
            waiting.append(data)
            more.set()

        def write(data: bytes) -> None:
            here.call_soon_threadsafe(written, data)

        link = self._links[id] = RequestLink(write, self._on_open)
        there.call_soon_threadsafe(self._on_made, link)
        try:
            yield None
            while True:
                await more.wait()
                more.clear()
                data = b"".join(waiting)
                waiting.clear()
                yield data
        finally:
            del self._links[id]
            there.call_soon_threadsafe(self._end, link)

    def _end(self, link: RequestLink) -> None:
        self._on_lost(link)
        link.lost("the router is gone")
