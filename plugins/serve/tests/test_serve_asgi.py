"""ASGI applications in front of deployments, in a real session: FastAPI, Starlette, plain ones; and WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import cloudpickle
import httpx
import pydantic
import pytest
import websockets
from fastapi import (
    APIRouter,
    BackgroundTasks,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Request,
    WebSocket,
    WebSocketDisconnect,
)
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.sync.client import ClientConnection, connect

from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0
ENDED = tempfile.mktemp(prefix="kernel-serve-lifespan-")
"""The file that the end of the application makes."""


class Item(pydantic.BaseModel):
    name: str
    price: float


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    yield {"greeting": "hello"}
    Path(ENDED).touch()


app = FastAPI(lifespan=lifespan, title="Shop")


def caller(x_caller: Annotated[str, Header()] = "nobody") -> str:
    return x_caller


more = APIRouter(prefix="/more")


@more.get("/there")
async def there(who: Annotated[str, Depends(caller)]) -> str:
    return who


app.include_router(more)


@app.get("/outside")
def outside(request: Request) -> str:
    return request.state.greeting


@serve.deployment(max_ongoing_requests=200)
@serve.ingress(app)
class Shop:
    def __init__(self, factor: int) -> None:
        self.factor = factor
        self.done: list[str] = []

    @app.get("/times/{n}")
    def times(self, n: int, who: Annotated[str, Depends(caller)]) -> dict[str, Any]:
        return {"product": n * self.factor, "who": who}

    @app.post("/items", status_code=201, response_model=Item)
    async def add(self, item: Item, tasks: BackgroundTasks) -> Item:
        tasks.add_task(self.done.append, item.name)
        return item

    @app.get("/done")
    async def list_done(self) -> list[str]:
        return self.done

    @app.get("/stream")
    async def stream(self) -> StreamingResponse:
        async def items() -> AsyncIterator[str]:
            try:
                for n in range(10_000):
                    yield f"{n}\n"
                    await asyncio.sleep(0.01)
            finally:
                self.done.append("stream ended")

        return StreamingResponse(items())

    @app.get("/wait")
    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.done.append("wait ended")

    @app.get("/refuse")
    async def refuse(self) -> None:
        raise HTTPException(409, {"why": "because"})

    @app.get("/raise")
    async def fail(self) -> None:
        raise ValueError("secret words")

    @app.websocket("/echo")
    async def echo(self, socket: WebSocket) -> None:
        await socket.accept("b" if "b" in socket.scope["subprotocols"] else None, headers=[(b"x-own", b"yes")])
        try:
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    self.done.append(f"disconnect {message['code']}")
                    return
                if message.get("text") == "close":
                    await socket.close(4321, "as you wish")
                    return
                if message.get("text") == "raise":
                    raise ValueError("secret words")
                if message.get("text") == "flood":
                    for n in range(2000):
                        await socket.send_text(f"{n}:" + "x" * 50_000)
                        self.done[-1:] = [f"flooded {n}"]
                elif message.get("bytes") is not None:
                    await socket.send_bytes(message["bytes"])
                else:
                    await socket.send_text(message["text"])
        except WebSocketDisconnect:
            self.done.append("gone")

    @app.websocket("/refused")
    async def refused(self, socket: WebSocket) -> None:
        raise HTTPException(401, "who are you?")

    @app.websocket("/broken")
    async def broken(self, socket: WebSocket) -> None:
        raise ValueError("secret words")

    @app.get("/{anything:path}")
    async def last(self, anything: str) -> str:
        return f"last: {anything}"


@pytest.fixture(scope="module")
def client(address: tuple[str, int]) -> Iterator[httpx.Client]:
    serve.run(Shop.bind(3), name="shop", route_prefix="/shop")
    with httpx.Client(base_url="http://{}:{}/shop".format(*address), timeout=SECONDS) as client:
        yield client


def socket_at(address: tuple[str, int], path: str, **options: Any) -> ClientConnection:
    return connect("ws://{}:{}{}".format(*address, path), open_timeout=SECONDS, **options)


def test_routes_of_a_class_have_self_and_dependencies(client: httpx.Client) -> None:
    assert client.get("/times/4", headers={"x-caller": "Ann"}).json() == {"product": 12, "who": "Ann"}
    assert client.get("/outside").json() == "hello"
    assert client.get("/more/there", headers={"x-caller": "Ann"}).json() == "Ann"
    assert client.get("/some/thing").json() == "last: some/thing"


def test_requests_are_validated(client: httpx.Client) -> None:
    answer = client.get("/times/many")
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["path", "n"]
    assert client.post("/items", json={"name": "x"}).status_code == 422
    assert client.delete("/items").status_code == 405
    answer = client.get("/refuse")
    assert (answer.status_code, answer.json()) == (409, {"detail": {"why": "because"}})


def test_what_a_route_raises_stays_inside(client: httpx.Client) -> None:
    answer = client.get("/raise", headers={"x-request-id": "mine"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine")
    assert "secret" not in answer.text


def test_the_openapi_page_describes_the_routes_below_the_prefix(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert described["info"]["title"] == "Shop"
    assert described["servers"] == [{"url": "/shop"}]
    assert "self" not in json.dumps(described["paths"])
    assert [each["name"] for each in described["paths"]["/times/{n}"]["get"]["parameters"]] == ["n", "x-caller"]
    assert "/shop/openapi.json" in client.get("/docs").text


def test_background_tasks_run_after_the_answer(client: httpx.Client) -> None:
    answer = client.post("/items", json={"name": "pen", "price": 1})
    assert (answer.status_code, answer.json()) == (201, {"name": "pen", "price": 1.0})
    wait_until(lambda: "pen" in client.get("/done").json(), SECONDS, "the task")


def test_streams_and_waits_end_with_their_client(client: httpx.Client) -> None:
    with client.stream("GET", "/stream") as answer:
        assert next(answer.iter_lines()) == "0"
    wait_until(lambda: "stream ended" in client.get("/done").json(), SECONDS, "the end of the stream")

    def give_up() -> bool:
        with pytest.raises(httpx.ReadTimeout):
            client.get("/wait", timeout=httpx.Timeout(SECONDS, read=0.3))
        return "wait ended" in client.get("/done").json()

    wait_until(give_up, SECONDS, "the end of a request that was given up when it had begun")


def test_a_websocket_echoes_text_and_bytes_of_any_size(client: httpx.Client, address: tuple[str, int]) -> None:
    with socket_at(address, "/shop/echo", subprotocols=["a", "b"], max_size=None) as socket:
        assert socket.subprotocol == "b"
        assert socket.response is not None and socket.response.headers["x-own"] == "yes"
        for message in ("", "grüß", b"\x00\xff", b"", "x" * 3_000_000, bytes(5_000_000)):
            socket.send(message)
            assert socket.recv(SECONDS) == message


def test_a_websocket_is_closed_by_either_side_and_by_errors(client: httpx.Client, address: tuple[str, int]) -> None:
    with socket_at(address, "/shop/echo") as socket:
        socket.send("close")
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            socket.recv(SECONDS)
        assert caught.value.rcvd == websockets.frames.Close(4321, "as you wish")
    with socket_at(address, "/shop/echo") as socket:
        socket.send("raise")
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            socket.recv(SECONDS)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1011
    with socket_at(address, "/shop/echo") as socket:
        socket.close(4000)
    wait_until(lambda: "disconnect 4000" in client.get("/done").json(), SECONDS, "the close code")
    gone = socket_at(address, "/shop/echo")
    gone.socket.close()
    wait_until(lambda: "disconnect 1005" in str(client.get("/done").json()) or "disconnect 1006" in
               str(client.get("/done").json()), SECONDS, "the disconnect")  # fmt: skip


def test_a_websocket_can_be_refused(client: httpx.Client, address: tuple[str, int]) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        socket_at(address, "/shop/refused")
    assert caught.value.response.status_code == 401
    with pytest.raises(websockets.InvalidStatus) as caught:
        socket_at(address, "/shop/broken", additional_headers={"x-request-id": "mine"})
    broken = caught.value.response
    assert (broken.status_code, broken.body) == (500, b"Internal Server Error (request mine)")
    assert broken.headers.get_all("x-request-id") == ["mine"]
    for given in ({}, {"x-request-id": "mine"}):
        with pytest.raises(websockets.InvalidStatus) as caught:
            socket_at(address, "/nowhere", additional_headers=given)
        assert caught.value.response.status_code == 404
        assert caught.value.response.body is not None and b"/-/routes" in caught.value.response.body
        id = caught.value.response.headers["x-request-id"]
        assert id == "mine" if given else len(id) > 16


def test_many_messages_both_ways_and_a_slow_reader(client: httpx.Client, address: tuple[str, int]) -> None:
    with socket_at(address, "/shop/echo", max_queue=None) as socket:
        for n in range(3000):
            socket.send(f"{n}")
        assert [socket.recv(SECONDS) for _ in range(3000)] == [f"{n}" for n in range(3000)]
    with socket_at(address, "/shop/echo", max_queue=1, compression=None) as socket:
        socket.send("flood")
        sent = ""
        while sent != (sent := client.get("/done").json()[-1]) or not sent.startswith("flooded"):
            time.sleep(0.2)
        assert sent.startswith("flooded ") and int(sent.split()[1]) < 1500  # 100 MB are not on their way all at once
        for n in range(2000):
            assert socket.recv(SECONDS).startswith(f"{n}:")  # type: ignore[union-attr]


def test_a_route_passes_on_why_its_call_of_a_handle_failed(address: tuple[str, int], tmp_path: Path) -> None:
    api = FastAPI()

    @serve.deployment(max_ongoing_requests=1, max_queued_requests=0)
    class Busy:
        async def __call__(self, begun: str = "") -> None:
            if begun:
                (tmp_path / begun).touch()
            while not (tmp_path / "go").exists():
                await asyncio.sleep(0.01)

        async def look(self) -> None:
            pass

    @serve.deployment
    @serve.ingress(api)
    class Ingress:
        def __init__(self, busy: Any) -> None:
            self.busy = busy

        @api.get("/ask")
        async def ask(self, timeout: float = 10 * SECONDS, begun: str = "") -> None:
            await self.busy.options(timeout_s=timeout).remote(begun)

        @api.get("/look")
        async def look(self) -> None:
            await self.busy.look.remote()

    serve.run(Ingress.bind(Busy.bind()), name="passing", route_prefix="/passing")
    with httpx.Client(base_url=f"http://{address[0]}:{address[1]}/passing", timeout=SECONDS) as client:

        def is_free() -> bool:
            return client.get("/look").status_code == 200

        wait_until(is_free, SECONDS, "the way to the one that is called")
        late = client.get("/ask?timeout=0.5", headers={"x-request-id": "id-7"})
        assert late.status_code == 408
        assert late.text == "passing#Busy.__call__() did not return within 0.5 s (request id-7)"
        wait_until(is_free, SECONDS, "the end of the late call")
        with ThreadPoolExecutor() as pool:
            first = pool.submit(client.get, "/ask?begun=first")
            try:
                wait_until((tmp_path / "first").exists, SECONDS, "the first is asked")
                refused = client.get("/ask")
            finally:
                (tmp_path / "go").touch()
            assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
            assert "max_queued_requests=0" in refused.text
            assert first.result().status_code == 200
    serve.delete("passing")


def test_the_lifespan_ends_with_the_replica(client: httpx.Client) -> None:
    assert not Path(ENDED).exists()
    serve.delete("shop")
    assert Path(ENDED).exists()
    Path(ENDED).unlink()
    serve.run(Shop.bind(3), name="shop", route_prefix="/shop")


async def plain_application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        for _ in range(2):
            got = await receive()
            await send({"type": "websocket.send", "text": got["text"].upper()})
        return
    assert scope["type"] == "http"
    if scope["path"].endswith("/nothing"):
        return
    if scope["path"].endswith("/no-start"):
        await send({"type": "http.response.body", "body": b"x"})
    if scope["path"].endswith("/half"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"X-Path", scope["raw_path"])]})
    await send({"type": "http.response.body", "body": scope["root_path"].encode()})


def test_plain_applications(address: tuple[str, int]) -> None:
    @serve.deployment
    @serve.ingress(plain_application)
    class Plain:
        pass

    serve.run(Plain.bind(), name="plain", route_prefix="/plain")
    with httpx.Client(base_url="http://{}:{}/plain".format(*address), timeout=SECONDS) as client:
        answer = client.get("/a%2Fb")
        assert (answer.text, answer.headers["x-path"]) == ("/plain", "/plain/a%2Fb")
        assert client.get("/nothing").status_code == 500
        assert client.get("/no-start").status_code == 500
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/half")
    with socket_at(address, "/plain") as socket:
        socket.send("a")
        socket.send("b")
        assert [socket.recv(SECONDS), socket.recv(SECONDS)] == ["A", "B"]
        with pytest.raises(websockets.ConnectionClosedOK):
            socket.recv(SECONDS)
    serve.delete("plain")


def test_an_application_without_a_class(address: tuple[str, int]) -> None:
    alone = FastAPI()

    @alone.get("/name")
    def name() -> str:
        return serve.get_replica_context().deployment

    serve.run(serve.deployment(serve.ingress(alone)()).bind(), name="alone", route_prefix="/alone")
    assert httpx.get("http://{}:{}/alone/name".format(*address), timeout=SECONDS).json() == "Ingress"
    serve.delete("alone")


def test_starlette_applications_made_by_a_function_of_the_object(address: tuple[str, int]) -> None:
    def make(instance: Any) -> Starlette:
        async def name(request: Any) -> PlainTextResponse:
            return PlainTextResponse(instance.name + " " + str(request.url_for("name")))

        async def echo(socket: Any) -> None:
            await socket.accept()
            await socket.send_bytes(await socket.receive_bytes())
            await socket.close()

        return Starlette(routes=[Mount("/in", routes=[Route("/name", name, name="name"), WebSocketRoute("/ws", echo)])])

    @serve.deployment
    @serve.ingress(make)
    class Named:
        name = "Ann"

    serve.run(Named.bind(), name="named", route_prefix="/named")
    base = "http://{}:{}".format(*address)
    assert httpx.get(f"{base}/named/in/name", timeout=SECONDS).text == f"Ann {base}/named/in/name"
    with socket_at(address, "/named/in/ws") as socket:
        socket.send(b"1")
        assert socket.recv(SECONDS) == b"1"
    with pytest.raises(serve.DeployFailedError, match="no database"):

        @contextlib.asynccontextmanager
        async def broken(app: Any) -> AsyncIterator[None]:
            raise ValueError("no database")
            yield

        @serve.deployment(max_constructor_retry_count=1)
        @serve.ingress(Starlette(lifespan=broken))
        class Broken:
            pass

        serve.run(Broken.bind(), name="broken", route_prefix="/broken")
    serve.delete("named")
    serve.delete("broken")
