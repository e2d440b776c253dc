"""Links of serve (`kernel_serve.wire`) beside calls and streams of a plain actor, between the same two processes.

`benchmarks.serve_parts` runs it. A caller uses each way as serve would: links in serve's data loop, calls in the
actor's own loop; both ends do the same with what they carry.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

import kernel

BODY = 10 << 20
PIECE = 64 << 10
TOKENS = 2000
Figures = dict[str, dict[str, float]]


@kernel.remote(num_cpus=0)
class Caller:
    """The end that calls."""

    async def calls(self, way: str, other: Any, name: str, seconds: float) -> dict[str, dict[str, float]]:
        """Measure one way of calls and streams to the process `other`, which takes links at `name`."""
        from kernel_serve.routing.loops import data_loop
        from kernel_serve.wire.unix import connect

        if way == "actor calls":
            return await measure_calls(ActorWay(other), seconds)

        async def work() -> dict[str, dict[str, float]]:
            link = (await connect(name, lambda meta: None, lambda load: None, lambda reason: None)).link
            return await measure_calls(WireWay(link), seconds)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), data_loop()))


@kernel.remote(num_cpus=0)
class Other:
    """The end that answers, by both ways."""

    def __init__(self) -> None:
        self._answering: set[asyncio.Task[None]] = set()

    async def call(self, body: bytes) -> bytes:
        """Return the body."""
        return body

    async def stream(self, count: int, size: int) -> Any:
        """Yield so many pieces of so many bytes."""
        for _ in range(count):
            yield bytes(size)

    async def listen(self) -> str:
        """Take links; return where."""
        from kernel_serve.routing.loops import data_loop
        from kernel_serve.wire.unix import listen, new_socket_name

        name = new_socket_name()
        work = listen(name, self._opened, lambda protocol: None, lambda protocol: None)
        self._server = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, data_loop()))
        return name

    def _opened(self, exchange: Any, meta: Any, body: bytes, end: bool) -> None:
        answering = asyncio.get_running_loop().create_task(self._answer(exchange, meta, body, end))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _answer(self, exchange: Any, meta: Any, body: bytes, end: bool) -> None:
        if meta:
            async for piece in self.stream(*meta):
                await exchange.send_all(None, piece)
            exchange.send(None, b"", end=True)
            return
        parts = [body]
        while not end:
            _, part, end = await exchange.receive()
            parts.append(part)
        await exchange.send_all(None, b"".join(parts), end=True)


class ActorWay:
    """Calls and streams of an actor."""

    def __init__(self, other: Any) -> None:
        self._other = other

    async def call(self, body: bytes) -> int:
        """Send a body there and back; return its size."""
        return len(await self._other.call.remote(body))

    async def stream(self, count: int, size: int) -> int:
        """Read a stream; return its size."""
        found = 0
        async for piece in self._other.stream.options(stream_ahead=64).remote(count, size):
            found += len(await piece)
        return found


class WireWay:
    """Exchanges of a link."""

    def __init__(self, link: Any) -> None:
        self._link = link

    async def call(self, body: bytes) -> int:
        """Send a body there and back; return its size."""
        exchange = self._link.open(None, body[:0], end=False)
        await exchange.send_all(None, body, end=True)
        return await self._read(exchange)

    async def stream(self, count: int, size: int) -> int:
        """Read a stream; return its size."""
        return await self._read(self._link.open([count, size]))

    async def _read(self, exchange: Any) -> int:
        found, over = 0, False
        while not over:
            _, body, over = await exchange.receive()
            found += len(body)
        return found


async def measure_calls(way: Any, seconds: float) -> dict[str, dict[str, float]]:
    """Return what one way gives, by row."""

    async def timed(work: Callable[[], Any], size: int, at_once: int = 1) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + seconds

        async def one() -> None:
            while (begun := time.perf_counter()) < end:
                assert await work() == size
                times.append(time.perf_counter() - begun)

        await asyncio.gather(*[one() for _ in range(at_once)])
        return sorted(times)

    for _ in range(50):
        await way.call(b"hello")
    alone = await timed(lambda: way.call(b"hello"), 5)
    eight = await timed(lambda: way.call(b"hello"), 5, 8)
    large = await timed(lambda: way.call(bytes(BODY)), BODY)
    stream = await timed(lambda: way.stream(BODY // PIECE, PIECE), BODY)
    tokens = await timed(lambda: way.stream(TOKENS, 8), TOKENS * 8)
    middle = statistics.median
    return {
        "small calls, 1 in flight": {"p50 ms": middle(alone) * 1e3, "p99 ms": alone[int(len(alone) * 0.99)] * 1e3},
        "small calls, 8 in flight": {"per s": len(eight) / seconds},
        "10 MB there and back": {"ms": middle(large) * 1e3},
        "10 MB streamed in 64 KB": {"MB/s": BODY / middle(stream) / 1e6},
        "2,000 pieces of 8 bytes": {"pieces/s": TOKENS / middle(tokens)},
    }


def measure_links(rounds: int, seconds: float) -> None:
    """Print links beside calls of actors."""
    caller, other = Caller.remote(), Other.remote()
    name = kernel.get(other.listen.remote())
    found: dict[str, list[Figures]] = {"wire": [], "actor calls": []}
    for number in range(rounds):
        for way in list(found)[:: 1 if number % 2 else -1]:
            found[way].append(kernel.get(caller.calls.remote(way, other, name, seconds)))
    show(found)


def show(found: dict[str, list[Figures]]) -> None:
    """Print medians as a table in Markdown, and how the first column is to the second, pair by pair, in the middle."""
    names = list(found)
    print(f"| | {' | '.join(names)} | {names[0]} to {names[1]} |\n|---|---|---|---|")
    for row in dict.fromkeys(row for one in found[names[0]] for row in one):
        measured = [[one[row] for one in found[name] if row in one] for name in names]
        cells = [
            ", ".join(f"{key} {statistics.median(one[key] for one in each):,.4g}" for key in each[0])
            for each in measured
        ]
        first = next(iter(measured[0][0]))
        shares = sorted(one[first] / other[first] for one, other in zip(*measured, strict=True))
        low, high = shares[len(shares) // 4], shares[len(shares) * 3 // 4]
        cells.append(f"{first} x {statistics.median(shares):.2f} ({low:.2f} to {high:.2f})")
        print(f"| {row} | {' | '.join(cells)} |", flush=True)
