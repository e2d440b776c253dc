"""User code on its way to replicas, and what keeps these reachable, in a real session."""

from __future__ import annotations

import asyncio
import gc
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from kernel_serve.api import run as api
from kernel_serve.api.deployment import deployment
from kernel_serve.api.ingress import ingress
from pydantic import BaseModel

import kernel

SECONDS = 120.0


@pytest.fixture(scope="module")
def session() -> Iterator[str]:
    """A session with proxies on a free port; where these listen."""
    kernel.shutdown()
    with kernel.init(num_cpus=4, log_to_driver=False):
        api.start(http_options={"port": 0})
        (proxy,) = api.status()["proxies"].values()
        yield f"http://{proxy['address']}"
        api.shutdown()


def fastapi_class() -> Any:
    """Return a deployment that travels whole, since it is no module's: names in its annotations are text."""
    app = FastAPI()
    app.state.word = "seen"

    @app.middleware("http")
    async def mark(request: Request, go_on: Any) -> Any:
        answer = await go_on(request)
        answer.headers["x-mark"] = request.app.state.word
        return answer

    @deployment
    @ingress(app)
    class Shop:
        @app.post("/orders")
        def order(self, order: Order) -> Order:
            return Order(title=order.title.upper(), number=order.number + 1)

    return Shop


class Order(BaseModel):
    """An order."""

    title: str
    number: int = 1


@deployment
class Collector:
    """Collects garbage all the time, as many programs do while they load what they need."""

    async def __init__(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.collect())

    async def collect(self) -> None:
        for _ in range(50):
            gc.collect()
            await asyncio.sleep(0.002)

    async def __call__(self) -> int:
        await self.task
        return 1


def test_a_fastapi_application_travels_with_its_state_and_its_annotations(session: str) -> None:
    api.run(fastapi_class().bind(), name="shop", route_prefix="/shop")
    request = urllib.request.Request(
        f"{session}/shop/orders", b'{"title": "tea"}', {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        assert json.load(answer) == {"title": "TEA", "number": 2} and answer.headers["x-mark"] == "seen"
    with urllib.request.urlopen(f"{session}/shop/openapi.json", timeout=SECONDS) as answer:
        assert "Order" in json.load(answer)["components"]["schemas"]


def test_a_replica_is_still_reachable_after_garbage_was_collected(session: str) -> None:
    handle = api.run(Collector.bind(), name="collector", route_prefix=None)
    assert handle.remote().result(SECONDS) == 1

    @kernel.remote
    def elsewhere(handle: Any) -> int:
        return int(handle.remote().result(120))

    assert kernel.get(elsewhere.remote(handle)) == 1  # by a new link, from another process
