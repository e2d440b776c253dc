"""The same services on kernel, on Ray Serve, and on bare uvicorn: run by `benchmarks.serve`, each in its own process.

python -m benchmarks.serve_systems kernel|ray|uvicorn PORT

Writes a line of JSON when the services answer, then does what it reads: "handles" measures calls, "elastic" how soon
there is another replica, "end" ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.request
from typing import Any

TOKENS, TOKEN_SECONDS = 100, 0.001


async def tokens(number: int = TOKENS) -> Any:
    """Yield so many words, one each millisecond."""
    for _ in range(number):
        yield "token "
        await asyncio.sleep(TOKEN_SECONDS)


def services(serve: Any) -> dict[str, Any]:
    """Return prefix to application, for a library with the shape of Ray Serve's."""
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    limits = {"max_ongoing_requests": 1000}

    @serve.deployment(**limits)
    class Hello:
        async def __call__(self, request: Request) -> str:
            return "hello"

        async def value(self, number: int = 0) -> int:
            return number

    @serve.deployment(**limits)
    class Next:
        def __init__(self, handle: Any) -> None:
            self._handle = handle

        async def __call__(self, request: Request) -> str:
            await self._handle.value.remote(1)
            return "hello"

        async def value(self, number: int = 0) -> int:
            return await self._handle.value.remote(number)

    @serve.deployment(**limits)
    class Stream:
        async def __call__(self, request: Request) -> StreamingResponse:
            return StreamingResponse(tokens(), media_type="text/plain")

    @serve.deployment(**limits)
    class Length:
        async def __call__(self, request: Request) -> str:
            return str(len(await request.body()))

    return {
        "/": Hello.bind(),
        "/chain": Next.bind(Next.options(name="Middle").bind(Hello.options(name="Last").bind())),
        "/stream": Stream.bind(),
        "/length": Length.bind(),
    }


def measure_handles(handle: Any, seconds: float = 2.0) -> dict[str, float]:
    """Return calls in a second from this program: one after the other, and many at once in an event loop."""
    for _ in range(50):
        handle.value.remote(1).result()
    begun = time.perf_counter()
    count = 0
    while time.perf_counter() < begun + seconds:
        handle.value.remote(1).result()
        count += 1
    found = {"sync": count / (time.perf_counter() - begun)}

    async def many() -> float:
        begun = time.perf_counter()
        count = 0
        while time.perf_counter() < begun + seconds:
            await asyncio.gather(*[handle.value.remote(1) for _ in range(500)])
            count += 500
        return count / (time.perf_counter() - begun)

    found["async"] = asyncio.run(many())
    return found


def measure_elastic(serve: Any, port: int) -> dict[str, float]:
    """Return the seconds until a second replica is there, and until there is a first one and it has answered."""

    @serve.deployment
    class Elastic:
        async def __call__(self, request: Any) -> str:
            return "hello"

    serve.run(Elastic.bind(), name="more", route_prefix="/more")
    begun = time.perf_counter()
    serve.run(Elastic.options(num_replicas=2).bind(), name="more", route_prefix="/more")
    found = {"new_replica": time.perf_counter() - begun}
    none = {"min_replicas": 0, "initial_replicas": 0, "max_replicas": 1}
    serve.run(Elastic.options(autoscaling_config=none).bind(), name="none", route_prefix="/none")
    begun = time.perf_counter()
    first_answer(port, "/none")
    return found | {"from_none": time.perf_counter() - begun}


def with_uvicorn(port: int) -> None:
    """Serve without any system."""
    import threading

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, StreamingResponse
    from starlette.routing import Route

    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(tokens(), media_type="text/plain")

    async def length(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    routes = [
        Route("/", hello),
        Route("/chain", hello),
        Route("/stream", stream),
        Route("/length", length, methods=["POST"]),
    ]
    begun = time.perf_counter()
    config = uvicorn.Config(Starlette(routes=routes), port=port, log_level="warning", access_log=False)
    threading.Thread(target=uvicorn.Server(config).run, daemon=True).start()
    first_answer(port)
    say({"first_answer": time.perf_counter() - begun})
    listen({})


def with_kernel(port: int) -> None:
    """Serve with kernel."""
    begun = time.perf_counter()
    import kernel
    from kernel import serve

    kernel.init(num_cpus=16, log_to_driver=False)
    serve.start(http_options={"port": port, "access_log": False})
    run_all(kernel, serve, port, begun)


def with_ray(port: int) -> None:
    """Serve with Ray."""
    begun = time.perf_counter()
    import ray
    from ray import serve

    ray.init(num_cpus=16, logging_level="error", log_to_driver=False)
    serve.start(http_options={"port": port})
    run_all(ray, serve, port, begun)


def run_all(system: Any, serve: Any, port: int, begun: float) -> None:
    """Run the services until the end; say how long after `begun` the first answered."""
    applications = services(serve)
    handle = serve.run(applications["/"], name="hello", route_prefix="/")
    first_answer(port)
    taken = time.perf_counter() - begun
    for prefix, application in applications.items():
        if prefix != "/":
            serve.run(application, name=prefix.strip("/"), route_prefix=prefix)
    say({"first_answer": taken})
    listen({"handles": lambda: measure_handles(handle), "elastic": lambda: measure_elastic(serve, port)})
    serve.shutdown()
    system.shutdown()


def first_answer(port: int, path: str = "/") -> None:
    """Return when the service answers."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                answer.read()
                return
        except OSError:
            time.sleep(0.005)


def say(what: Any) -> None:
    """Write a line for `benchmarks.serve`."""
    print(json.dumps(what), flush=True)


def listen(known: dict[str, Any]) -> None:
    """Do what is read, until "end"."""
    for line in sys.stdin:
        word = line.strip()
        if word == "end":
            return
        say(known[word]() if word in known else {})


if __name__ == "__main__":
    {"kernel": with_kernel, "ray": with_ray, "uvicorn": with_uvicorn}[sys.argv[1]](int(sys.argv[2]))
