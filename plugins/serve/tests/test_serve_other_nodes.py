"""Replicas on other nodes than their callers: everything goes through tunnels."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import cloudpickle
import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Request, WebSocket
from kernel_serve.routing.loops import data_loop
from starlette.responses import Response, StreamingResponse
from websockets.sync.client import connect

import kernel
from kernel import serve
from kernel.testing.cluster import Cluster, ClusterNode
from kernel.testing.faults import wait_until
from kernel.testing.objects import stored_bytes

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0
app = FastAPI()


@serve.deployment(max_ongoing_requests=500, actor_options={"resources": {"far": 1}}, health_check_period_s=1.0)
@serve.ingress(app)
class Far:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @app.get("/node")
    async def node(self) -> str:
        return kernel.get_runtime_context().get_node_id()

    @app.post("/size")
    async def size(self, request: Request) -> int:
        return sum([len(piece) async for piece in request.stream()])

    @app.get("/large")
    async def large(self) -> StreamingResponse:
        async def pieces() -> Any:
            for _ in range(20):
                yield bytes(1 << 20)

        return StreamingResponse(pieces())

    @app.get("/whole")
    async def whole(self) -> Response:
        return Response(bytes(400_000))

    @app.get("/wait")
    async def wait(self) -> None:
        self.seen.append("wait begun")
        try:
            await asyncio.Event().wait()
        finally:
            self.seen.append("wait ended")

    @app.websocket("/echo")
    async def echo(self, socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    async def add(self, one: Any, other: Any) -> Any:
        return one + other

    async def list_seen(self) -> list[str]:
        return self.seen

    async def count(self, number: int, size: int = 1) -> Any:
        try:
            for n in range(number):
                self.seen[:] = [f"counted {n}"]
                yield n if size == 1 else np.full(size, n % 100, np.uint8)
        finally:
            self.seen.append("count ended")

    async def fail(self) -> None:
        raise KeyError("not there")

    async def pid(self) -> int:
        return os.getpid()


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Cluster, ClusterNode]]:
    kernel.shutdown()
    _start_threads()
    with Cluster(num_cpus=4, death_seconds=SECONDS) as cluster:  # who is slow is not dead
        far = cluster.add_node(num_cpus=4, resources={"far": 4})
        cluster.connect(log_to_driver=False)
        cluster.wait_for_nodes(2, SECONDS)
        serve.start("HeadOnly", http_options={"port": 0, "access_log": False})
        serve.run(Far.bind())
        yield cluster, far
        serve.shutdown()


def _start_threads() -> None:
    """Start what lives as long as the process, so that it is not taken for a leak: the data loop and its threads."""
    loop = data_loop()

    async def work() -> None:
        await asyncio.gather(*[loop.run_in_executor(None, time.sleep, 0.1) for _ in range(32)])

    asyncio.run_coroutine_threadsafe(work(), loop).result(SECONDS)


@pytest.fixture
def address(nodes: Any) -> str:
    return next(iter(serve.status()["proxies"].values()))["address"]


@pytest.fixture
def handle(nodes: Any) -> Any:
    return serve.get_app_handle("default")


def test_requests_go_to_the_other_node(nodes: tuple[Cluster, ClusterNode], address: str) -> None:
    with httpx.Client(base_url=f"http://{address}", timeout=SECONDS) as client:
        for _ in range(20):
            assert client.get("/node").json() == nodes[1].id
        assert client.post("/size", content=(bytes(1 << 20) for _ in range(20))).json() == 20 << 20
        assert len(client.get("/large").content) == 20 << 20


def test_what_came_last_through_a_tunnel_does_not_stay_in_the_store(address: str) -> None:
    wait_until(lambda: stored_bytes() == 0, SECONDS, "an empty store")
    assert len(httpx.get(f"http://{address}/whole", timeout=SECONDS).content) == 400_000
    wait_until(lambda: stored_bytes() == 0, SECONDS, "an empty store though nothing follows")


def test_a_request_ends_with_its_client(address: str, handle: Any) -> None:
    def seen(what: str) -> bool:
        return what in handle.list_seen.remote().result(SECONDS)

    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: seen("wait begun"), SECONDS, "the request")
    wait_until(lambda: seen("wait ended"), SECONDS, "the end of the request given up")


def test_calls_in_order_and_many_at_once(handle: Any) -> None:
    assert handle.add.remote(1, 2).result(SECONDS) == 3
    responses = [handle.add.remote(n, 1) for n in range(3000)]
    assert [each.result(SECONDS) for each in responses] == list(range(1, 3001))
    with pytest.raises(KeyError, match="not there"):
        handle.fail.remote().result(SECONDS)


def test_large_arguments_and_results(handle: Any) -> None:
    array = np.arange(2_500_000, dtype=np.float64)
    for _ in range(3):
        assert np.array_equal(handle.add.remote(array, 1).result(SECONDS), array + 1)
    ref = kernel.put(array)
    assert handle.add.remote(ref, handle.add.remote(array, 1)).result(SECONDS)[-1] == 2 * array[-1] + 1


def test_references_go_there_and_back_and_are_let_go(handle: Any) -> None:
    wait_until(lambda: stored_bytes() == 0, SECONDS, "an empty store")
    inner = kernel.put(np.ones(200_000))
    (back,) = handle.add.remote([inner], []).result(SECONDS)
    del inner
    assert kernel.get(back).sum() == 200_000
    del back
    wait_until(lambda: stored_bytes() == 0, SECONDS, "an empty store")


def test_streams_wait_for_their_reader(handle: Any) -> None:
    items = handle.options(stream=True).count
    assert list(items.remote(2000)) == list(range(2000))
    slow = items.remote(300, 1 << 20)
    assert next(slow)[0] == 0
    counted = ""
    while counted != (counted := handle.list_seen.remote().result(SECONDS)[-1]) or not counted.startswith("counted "):
        time.sleep(0.3)
    assert int(counted.split()[1]) < 100
    assert sum(1 for _ in slow) == 299
    left = items.remote(300, 1 << 20)
    next(left)
    del left
    wait_until(lambda: handle.list_seen.remote().result(SECONDS)[-1] == "count ended", SECONDS, "the end")


def test_websockets(address: str, handle: Any) -> None:
    with connect(f"ws://{address}/echo", open_timeout=SECONDS, max_size=None) as client:
        for text in ("a", "x" * 3_000_000, "b"):
            client.send(text)
            assert client.recv(SECONDS) == text


def test_a_replica_that_is_killed_is_replaced(address: str, handle: Any) -> None:
    waiting = handle.options(stream=True).count.remote(10_000, 1 << 20)
    next(waiting)
    os.kill(handle.pid.remote().result(SECONDS), signal.SIGKILL)
    with pytest.raises(serve.DeploymentUnavailableError):
        list(waiting)
    wait_until(lambda: _answers(address), SECONDS, "another replica")
    assert handle.options(retry=True).add.remote(1, 2).result(SECONDS) == 3


def test_a_node_that_is_lost_is_done_without(nodes: tuple[Cluster, ClusterNode], address: str, handle: Any) -> None:
    cluster, far = nodes
    other = cluster.add_node(num_cpus=4, resources={"far": 4})
    cluster.wait_for_nodes(3, SECONDS)
    stream = handle.options(stream=True).count.remote(10_000, 1 << 20)
    next(stream)
    cluster.kill_node(far)
    with pytest.raises(serve.DeploymentUnavailableError):
        list(stream)
    wait_until(lambda: _answers(address) == other.id, SECONDS, "a replica on the other node")
    assert handle.options(retry=True).add.remote(1, 2).result(SECONDS) == 3


def _answers(address: str) -> str:
    answer = httpx.get(f"http://{address}/node", timeout=SECONDS)
    return answer.json() if answer.status_code == 200 else ""
