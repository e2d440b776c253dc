"""An HTTP client that costs little, so that what is measured is the server: one process, raw connections, one loop.

python -m benchmarks.serve_client URL [--connections N] [--seconds S] [--rate R] [--bytes N] [--stream]

Prints one line of JSON: requests (or pieces of streams) in a second, and latencies in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from urllib.parse import urlsplit


class Connection(asyncio.Protocol):
    """Sends one request at a time and takes the answer to pieces as far as its length."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._answer: asyncio.Future[None]
        self._rest = b""
        self._missing = -1
        self.transport: asyncio.Transport
        self.failed = 0
        self.pieces: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport  # type: ignore[assignment]

    def ask(self) -> asyncio.Future[None]:
        """Send the request; the future is done when the answer is whole."""
        self._answer = asyncio.get_running_loop().create_future()
        self._rest, self._missing = b"", -1
        self.transport.write(self._request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        """Take bytes of the answer."""
        if self._missing < 0:
            self._rest += data
            end = self._rest.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._rest[:end].lower()
            if b" 200 " not in head[:20]:
                self.failed += 1
            length = head.find(b"content-length:")
            body = len(self._rest) - end - 4
            if length < 0:  # chunked: a stream
                self._missing = 1 << 60
                data = self._rest[end + 4 :]
            else:
                self._missing = int(head[length + 15 :].split(b"\r\n", 1)[0]) - body
        else:
            self._missing -= len(data)
        if self._missing > 1 << 50:
            now = time.perf_counter()
            self.pieces.extend([now] * data.count(b"token"))
            if data.endswith(b"0\r\n\r\n"):
                self._missing = 0
        if self._missing <= 0 and not self._answer.done():
            self._answer.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The server has hung up."""
        if not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server has closed the connection"))


async def measure(url: str, connections: int, seconds: float, rate: float, size: int, stream: bool) -> dict[str, float]:
    """Return what was measured; `rate` is in requests a second, 0 for as many as can be."""
    where = urlsplit(url)
    method = "POST" if size else "GET"
    target = (where.path or "/") + (f"?{where.query}" if where.query else "")
    head = f"{method} {target} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-length: {size}\r\n\r\n".encode()
    request = head + b"x" * size
    loop = asyncio.get_running_loop()
    made = [
        (await loop.create_connection(lambda: Connection(request), where.hostname, where.port))[1]
        for _ in range(connections)
    ]
    latencies: list[float] = []
    await asyncio.gather(*[each.ask() for each in made])
    for each in made:
        each.pieces.clear()
    begun = time.perf_counter()

    async def run(connection: Connection, number: int) -> None:
        due = begun + (number / rate if rate else 0)
        while (now := time.perf_counter()) < begun + seconds:
            if rate:
                if now < due:
                    await asyncio.sleep(due - now)
                now, due = due, due + connections / rate
            await connection.ask()
            latencies.append(time.perf_counter() - now)

    await asyncio.gather(*[run(each, number) for number, each in enumerate(made)])
    took = time.perf_counter() - begun
    latencies.sort()
    found = {
        "per_second": len(latencies) / took,
        "p50": latencies[len(latencies) // 2] * 1e3,
        "p99": latencies[int(len(latencies) * 0.99)] * 1e3,
        "failed": sum(each.failed for each in made),
    }
    if stream:
        gaps = sorted(b - a for each in made for a, b in zip(each.pieces, each.pieces[1:], strict=False))
        found |= {
            "pieces_per_second": len(gaps) / took,
            "gap_p50": gaps[len(gaps) // 2] * 1e3,
            "gap_p99": gaps[int(len(gaps) * 0.99)] * 1e3,
        }
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--stream", action="store_true")
    given = parser.parse_args()
    import uvloop

    loop = uvloop.new_event_loop()
    work = measure(given.url, given.connections, given.seconds, given.rate, given.bytes, given.stream)
    print(json.dumps(loop.run_until_complete(work)))


if __name__ == "__main__":
    main()
