"""What serve has of its own, beside what it could take instead: its HTTP/1 loop, and its links to replicas.

python -m benchmarks.serve_parts [--only WORD] [--seconds S] [--rounds N]

The HTTP loop against uvicorn (httptools, uvloop): both in one proxy's process and event loop, at two ports, in front
of the same router, links and replica; what uvicorn calls is as lean as ASGI allows, it does not even see that a client
is gone. The links against calls and streams of a plain actor: see `serve_links.py`. The two take turns; shown are
medians, and the middle half of the ratios of neighbours, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel
from benchmarks.serve_links import PIECE, Figures, measure_links, show
from kernel import serve

ROOT = Path(__file__).resolve().parent.parent
BODY = 10 << 20
STILL_CLIENTS = 32
"""How many clients ask for a large answer, or send a large body, and then stand still."""
STILL_SECONDS = 1.0
CLIENT = {
    "1 connection": ("/", 1, 0),
    "8 connections": ("/", 8, 0),
    "64 connections": ("/", 64, 0),
    "10 MB up": ("/length", 1, BODY),
    "10 MB down": ("/large", 1, 0),
}


def applications() -> dict[str, Any]:
    """Return prefix to application."""
    from starlette.requests import Request
    from starlette.responses import Response

    @serve.deployment(max_ongoing_requests=1000)
    class Hello:
        async def __call__(self, request: Request) -> str:
            return "hello"

    @serve.deployment(max_ongoing_requests=1000)
    class Length:
        async def __call__(self, request: Request) -> str:
            return str(len(await request.body()))

    @serve.deployment(max_ongoing_requests=1000)
    class Large:
        async def __call__(self, request: Request) -> Response:
            return Response(bytes(BODY))

    return {"/": Hello.bind(), "/length": Length.bind(), "/large": Large.bind()}


class ASGIFront:
    """What a proxy on uvicorn would be: it passes requests on as the proxy does, by ASGI's messages."""

    def __init__(self, service: Any) -> None:
        self._service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request. Only while its body is under way is there a task beside."""
        from kernel_serve.proxy.application import plain
        from kernel_serve.proxy.proxied_request import ProxiedRequest

        answer = ASGIAnswer()
        proxied = ProxiedRequest(self._service, plain(scope), answer)
        message = await receive()
        proxied.begin(message.get("body", b""), not message.get("more_body", False))
        reading = None
        if message.get("more_body", False):
            reading = asyncio.get_running_loop().create_task(answer.read(proxied, receive))
        await answer.pass_on(proxied, send)
        if reading is not None:
            reading.cancel()


class ASGIAnswer:
    """A `ResponseWriter` that gives what is written to ASGI's `send`."""

    def __init__(self) -> None:
        self.must_wait = False
        self._written: list[tuple[dict[str, Any], bool]] = []
        self._more = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()

    async def read(self, proxied: Any, receive: Any) -> None:
        """Give the rest of the body to the proxied request."""
        more = True
        while more:
            await self._free.wait()
            message = await receive()
            if message["type"] == "http.disconnect":
                proxied.gone()
                return
            more = message.get("more_body", False)
            proxied.feed(message.get("body", b""), not more)

    async def pass_on(self, proxied: Any, send: Any) -> None:
        """Send until the end."""
        over = False
        while not over:
            if not self._written:
                self._more.clear()
                await self._more.wait()
            written, self._written = self._written, []
            for message, last in written:
                await send(message)
                over = last
            if self.must_wait:
                self.must_wait = False
                proxied.resume()

    def begin(self, status: int, headers: Any, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        self._written.append(({"type": "http.response.start", "status": status, "headers": headers}, False))
        self.go_on(body, end)

    def go_on(self, body: bytes, end: bool) -> None:
        """See `ResponseWriter`."""
        self._written.append(({"type": "http.response.body", "body": body, "more_body": not end}, end))
        self.must_wait = len(body) >= PIECE
        self._more.set()

    def break_off(self) -> None:
        """See `ResponseWriter`."""
        raise ConnectionResetError("an answer that had begun could not be finished")

    def hold(self, wait: bool) -> None:
        """See `ResponseWriter`."""
        self._free.clear() if wait else self._free.set()


@kernel.remote(num_cpus=0)
class Fronts:
    """A proxy's process with both HTTP servers, at two ports."""

    async def start(self) -> dict[str, int]:
        """Listen; return the port of each."""
        from kernel_serve.routing.loops import data_loop

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._start(), data_loop()))

    async def _start(self) -> dict[str, int]:
        import uvicorn
        from kernel_serve.proxy.application import ProxyApplication
        from kernel_serve.proxy.listening import bind
        from kernel_serve.proxy.proxied_request import ProxiedRequest
        from kernel_serve.proxy.server import HTTPServer
        from kernel_serve.proxy.service import ProxyService
        from kernel_serve.routing.router import process_router
        from kernel_serve.settings import HTTPOptions

        options = HTTPOptions(port=0, access_log=False)
        service = ProxyService(process_router(), options, "measured")
        await service.ready()
        sockets = {"own": bind(options), "uvicorn": bind(options)}
        own = HTTPServer(options, ProxyApplication(service), lambda scope, reply: ProxiedRequest(service, scope, reply))
        await own.start(sockets["own"])
        config = uvicorn.Config(
            ASGIFront(service), http="httptools", lifespan="off", log_config=None, access_log=False, interface="asgi3"
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        sockets["uvicorn"].listen(4096)
        await server.startup([sockets["uvicorn"]])
        self._kept = own, server
        return {name: each.getsockname()[1] for name, each in sockets.items()}

    async def memory(self) -> float:
        """Return the process's resident memory in MB, without what it has freed and not given back."""
        ctypes.CDLL(None).malloc_trim(0)
        text = Path("/proc/self/statm").read_text()
        return int(text.split()[1]) * 4096 / 1e6


def client(port: int, path: str, connections: int, size: int, seconds: float) -> dict[str, float]:
    """Measure a server from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.serve_client", f"http://127.0.0.1:{port}{path}"]
    command += ["--connections", str(connections), "--seconds", str(seconds), "--bytes", str(size)]
    found: dict[str, float] = json.loads(subprocess.check_output(command, cwd=ROOT, text=True, timeout=120))
    assert not found["failed"], found
    return {"per s": found["per_second"], "p50 ms": found["p50"], "p99 ms": found["p99"]}


def beside_still_clients(port: int, request: bytes, memory: Callable[[], float], seconds: float) -> dict[str, float]:
    """Measure small requests beside clients that stand still, and what these cost in memory."""
    before = memory()
    made = [socket.create_connection(("127.0.0.1", port)) for _ in range(STILL_CLIENTS)]
    for each in made:
        each.sendall(request)
    time.sleep(STILL_SECONDS)
    found = client(port, "/", 8, 0, seconds)
    found["more MB"] = memory() - before
    for each in made:
        each.close()
    time.sleep(0.5)
    return found


def measure_fronts(rounds: int, seconds: float, only: str) -> None:
    """Print the own HTTP loop beside uvicorn."""
    for prefix, application in applications().items():
        serve.run(application, name=prefix.strip("/") or "hello", route_prefix=prefix)
    fronts = Fronts.remote()
    ports = kernel.get(fronts.start.remote())
    host = b"host: 127.0.0.1\r\n"
    still = {
        "beside 32 that read nothing of 10 MB": b"GET /large HTTP/1.1\r\n" + host + b"\r\n",
        "beside 32 that stop in a body": b"POST /length HTTP/1.1\r\n" + host + b"content-length: 9999999\r\n\r\nx",
        "beside 32 that stop in a head": b"GET / HTTP/1.1\r\n" + host,
    }
    found: dict[str, list[Figures]] = {name: [] for name in ports}
    for number in range(rounds):
        for row in [row for row in (*CLIENT, *still) if only in row]:
            for name in list(ports)[:: 1 if number % 2 else -1]:
                if row in CLIENT:
                    path, connections, size = CLIENT[row]
                    one = client(ports[name], path, connections, size, seconds)
                else:
                    memory = lambda: kernel.get(fronts.memory.remote())  # noqa: E731
                    one = beside_still_clients(ports[name], still[row], memory, seconds)
                found[name].append({row: one})
    show(found)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help='only the rows of HTTP with this word, or "links"')
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    with kernel.init(num_cpus=8, log_to_driver=False):
        if given.only != "links":
            serve.start(proxy_location="Disabled")
            measure_fronts(given.rounds, given.seconds, given.only)
            serve.shutdown()
        if given.only in ("", "links"):
            measure_links(given.rounds, given.seconds)


if __name__ == "__main__":
    main()
