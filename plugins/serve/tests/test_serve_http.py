"""Deployments over HTTP, in a real session: what handlers return and raise, what clients send, and how both end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import http
import http.client
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import cloudpickle
import httpx
import numpy as np
import psutil
import pydantic
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Model(pydantic.BaseModel):
    name: str
    id: uuid.UUID


ID = uuid.UUID(int=7)
RESULTS: dict[str, Any] = {
    "text": lambda: "grüß",
    "bytes": lambda: b"\x00\xff",
    "dict": lambda: {"a": [1, 2.5, None, True]},
    "list": lambda: [1, "two"],
    "none": lambda: None,
    "array": lambda: np.arange(3),
    "scalar": lambda: np.float32(0.5),
    "mixed": lambda: {"array": np.ones((2, 1)), "point": Point(1, datetime.date(2026, 1, 2)), "id": ID, "set": {1}},
    "dataclass": lambda: Point(3, datetime.date(2026, 1, 2)),
    "pydantic": lambda: Model(name="n", id=ID),
    "response": lambda: Response("made", http.HTTPStatus.CREATED, {"x-own": "yes"}),
    "json": lambda: JSONResponse({"a": 1}, 202),
    "nothing": lambda: Response(status_code=204),
    "unchanged": lambda: Response(status_code=304),
    "stream": lambda: StreamingResponse(iter(["a", "b"]), media_type="text/csv"),
    "generator": lambda: (f"{i}," for i in range(3)),
    "lines": lambda: iter([{"a": "ü"}, [1, None]]),
    "infinite": lambda: iter([float("inf")]),
    "object": lambda: object(),
    "injected": lambda: Response("x", headers={"x-own": "a\r\nx-evil: b"}),
    "nul": lambda: Response("x", headers={"x-own": "a\0evil"}),
    "bad name": lambda: Response("x", headers={"x own: evil": "a"}),
    "no end": lambda: Response("x", headers={"content-length": "5"}),
    "early hints": lambda: Response("", 103),
}


@serve.deployment(max_ongoing_requests=100)
class Results:
    """Answers with one of the results above, or does something else by the name in the path."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, request: Request) -> Any:
        name = request.url.path.rpartition("/")[2].replace("%20", " ")
        own = getattr(self, f"_{name}", None)
        return RESULTS[name]() if own is None else await own(request)

    async def _echo(self, request: Request) -> Any:
        return {
            "method": request.method, "query": list(request.query_params.multi_items()), "path": request.url.path,
            "root": request.scope["root_path"], "x-one": request.headers.get("x-one"), "host": request.client.host,
            "body": (await request.body()).decode(),
        }  # fmt: skip

    async def _form(self, request: Request) -> Any:
        return dict(await request.form())

    async def _size(self, request: Request) -> Any:
        size = 0
        async for piece in request.stream():
            size += len(piece)
        return size

    async def _early(self, request: Request) -> Any:
        return Response("no, thanks", 401)

    async def _large(self, request: Request) -> Any:
        size = int(request.query_params["size"])
        if "whole" in request.query_params:
            return bytes(size)

        async def pieces() -> Any:
            for _ in range(size >> 20):
                yield bytes(1 << 20)

        return StreamingResponse(pieces())

    async def _events(self, request: Request) -> Any:
        async def events() -> Any:
            try:
                while True:
                    yield f"data: {len(self.seen)}\n\n"
                    await asyncio.sleep(0.02)
            finally:
                self.seen.append("events ended")

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _quiet(self, request: Request) -> Any:
        async def events() -> Any:
            await asyncio.Event().wait()
            yield "never"

        return StreamingResponse(events())

    async def _endless(self, request: Request) -> Any:
        async def pieces() -> Any:
            while True:
                yield bytes(1 << 16)

        return StreamingResponse(pieces())

    async def _sleep(self, request: Request) -> Any:
        self.seen.append("sleeping")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.seen.append("sleep cancelled")
            raise

    async def _seen(self, request: Request) -> Any:
        return self.seen

    async def _raise(self, request: Request) -> Any:
        raise ValueError("secret words")

    async def _leave(self, request: Request) -> Any:
        sys.exit(3)

    async def _base(self, request: Request) -> Any:
        raise BaseException("secret words")

    async def _cancelled(self, request: Request) -> Any:
        raise asyncio.CancelledError

    async def _refuse(self, request: Request) -> Any:
        raise HTTPException(418, "a teapot", {"x-own": "yes"})

    async def _break(self, request: Request) -> Any:
        async def pieces() -> Any:
            yield "begun"
            raise ValueError("secret words")

        return StreamingResponse(pieces(), headers={"content-length": "9"} if "length" in request.query_params else {})

    async def _pid(self, request: Request) -> Any:
        return os.getpid()

    async def _block(self, request: Request) -> Any:
        while not os.path.exists(request.query_params["until"]):
            time.sleep(0.7)  # the line that blocks
        return "done"


@pytest.fixture(scope="module")
def client(address: tuple[str, int]) -> Iterator[httpx.Client]:
    serve.run(Results.bind(), name="results")
    with httpx.Client(base_url="http://{}:{}".format(*address), timeout=SECONDS) as client:
        yield client
    serve.delete("results")


class Raw:
    """A connection by hand."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, SECONDS)

    def send(self, *lines: str, body: bytes = b"") -> None:
        self.socket.sendall("\r\n".join((*lines, "", "")).encode() + body)

    def answer(self, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        found = http.client.HTTPResponse(self.socket, method=method)
        found.begin()
        headers = {name.lower(): value for name, value in found.getheaders()}
        # One byte at a time would be honest; but what is buffered ahead is only of this answer in these tests.
        return found.status, headers, found.read()

    def rest(self) -> bytes:
        """Return all that comes until the server closes."""
        data = b""
        while piece := self.socket.recv(1 << 16):
            data += piece
        return data


@pytest.fixture
def raw(address: tuple[str, int], client: httpx.Client) -> Iterator[Callable[[], Raw]]:
    made: list[Raw] = []

    def make() -> Raw:
        made.append(Raw(address))
        return made[-1]

    yield make
    for each in made:
        each.socket.close()


@pytest.mark.parametrize(
    ("name", "status", "kind", "body"),
    [
        ("text", 200, "text/plain; charset=utf-8", "grüß".encode()),
        ("bytes", 200, "application/octet-stream", b"\x00\xff"),
        ("dict", 200, "application/json", b'{"a":[1,2.5,null,true]}'),
        ("list", 200, "application/json", b'[1,"two"]'),
        ("none", 200, "application/json", b"null"),
        ("array", 200, "application/json", b"[0,1,2]"),
        ("scalar", 200, "application/json", b"0.5"),
        (
            "mixed",
            200,
            "application/json",
            f'{{"array":[[1.0],[1.0]],"point":{{"x":1,"when":"2026-01-02"}},"id":"{ID}","set":[1]}}'.encode(),
        ),
        ("dataclass", 200, "application/json", b'{"x":3,"when":"2026-01-02"}'),
        ("pydantic", 200, "application/json", f'{{"name":"n","id":"{ID}"}}'.encode()),
        ("response", 201, None, b"made"),
        ("json", 202, "application/json", b'{"a":1}'),
        ("nothing", 204, None, b""),
        ("unchanged", 304, None, b""),
        ("stream", 200, "text/csv; charset=utf-8", b"ab"),
        ("generator", 200, "text/plain; charset=utf-8", b"0,1,2,"),
        ("lines", 200, "text/plain; charset=utf-8", '{"a":"ü"}\n[1,null]\n'.encode()),
    ],
)
def test_results_become_answers(client: httpx.Client, name: str, status: int, kind: str | None, body: bytes) -> None:
    answer = client.get(f"/{name}")
    assert (answer.status_code, answer.headers.get("content-type"), answer.content) == (status, kind, body)
    assert answer.headers["x-request-id"]
    assert "transfer-encoding" in answer.headers or status in (204, 304) or answer.headers["content-length"]
    head = client.head(f"/{name}")
    assert (head.status_code, head.content) == (status, b"")
    assert client.get("/text").status_code == 200  # the connection is as it should be


@pytest.mark.parametrize(
    "name", ["object", "injected", "nul", "bad name", "no end", "early hints", "raise", "leave", "base", "cancelled"]
)
def test_what_can_not_be_an_answer_is_a_500_that_tells_the_client_nothing(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/{name}", headers={"x-request-id": "mine"})
    assert answer.status_code == 500
    assert "secret" not in answer.text and "Traceback" not in answer.text and "evil" not in str(answer.headers)
    assert answer.text == "Internal Server Error (request mine)"
    assert answer.headers["x-request-id"] == "mine"
    assert client.get("/text").status_code == 200


def test_a_handler_sees_the_request(client: httpx.Client) -> None:
    answer = client.put("/a%20b/echo?x=1&x=2&y=%C3%BC", headers={"X-One": "1"}, content="body")
    assert answer.json() == {
        "method": "PUT", "query": [["x", "1"], ["x", "2"], ["y", "ü"]], "path": "/a b/echo", "root": "",
        "x-one": "1", "host": "127.0.0.1", "body": "body",
    }  # fmt: skip
    assert client.post("/form", data={"name": "Ann"}).json() == {"name": "Ann"}

    def pieces() -> Iterator[bytes]:
        for size in (0, 1, 300_000, 1_000_000):
            yield bytes(size)

    assert client.post("/size", content=pieces()).json() == 1_300_001


def test_a_client_can_name_the_request(client: httpx.Client) -> None:
    assert client.get("/text", headers={"x-request-id": "of the client"}).headers["x-request-id"] == "of the client"
    assert client.get("/text", headers={"x-request-id": "ü".encode("latin-1")}).headers["x-request-id"] == "ü"


def test_large_bodies_pass_both_ways(client: httpx.Client) -> None:
    size = 100 << 20
    before = _memory(client)
    assert client.post("/size", content=(bytes(1 << 20) for _ in range(100))).json() == size
    for kind in ("", "&whole"):
        there = 0
        with client.stream("GET", f"/large?size={size}{kind}") as answer:
            for piece in answer.iter_bytes():
                there += len(piece)
        assert there == size
    grown = {name: now - before[name] for name, now in _memory(client).items()}
    assert grown["proxy"] < 60 << 20, grown
    assert grown["replica"] < 180 << 20, grown  # it made 100 MiB at once


def _memory(client: httpx.Client) -> dict[str, int]:
    pids = {"proxy": _pid_of_proxy(client), "replica": client.get("/pid").json()}
    return {name: psutil.Process(pid).memory_info().rss for name, pid in pids.items()}


def _pid_of_proxy(client: httpx.Client) -> int:
    port, connections = client.base_url.port, psutil.net_connections("tcp")
    return next(each.pid for each in connections if each.laddr.port == port and each.status == "LISTEN")


def test_a_client_that_does_not_read_costs_little_memory(client: httpx.Client, raw: Callable[[], Raw]) -> None:
    before = _memory(client)
    for kind in ("", "&whole"):
        connection = raw()
        connection.send(f"GET /large?size={200 << 20}{kind} HTTP/1.1", "Host: x")
        assert connection.socket.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    highest = {"proxy": 0, "replica": 0}
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        highest = {name: max(highest[name], now - before[name]) for name, now in _memory(client).items()}
    assert highest["proxy"] < 60 << 20
    assert highest["replica"] < 280 << 20  # the 200 MiB that it made at once


def test_answers_keep_the_connection_or_end_it(raw: Callable[[], Raw]) -> None:
    connection = raw()
    for _ in range(2):
        connection.send("GET /text HTTP/1.1", "Host: x")
        assert connection.answer()[0] == 200
    connection.send("GET /text HTTP/1.1", "Host: x", "Connection: close")
    status, headers, _ = connection.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert connection.rest() == b""
    old = raw()
    old.send("GET /text HTTP/1.0")
    status, headers, body = old.answer()
    assert (status, headers["connection"], body.decode()) == (200, "close", "grüß")
    old = raw()
    old.send("GET /generator HTTP/1.0")
    status, headers, body = old.answer()
    assert (status, body) == (200, b"0,1,2,")
    assert "transfer-encoding" not in headers
    kept = raw()
    for _ in range(2):
        kept.send("GET /text HTTP/1.0", "Connection: keep-alive")
        assert kept.answer()[1]["connection"] == "keep-alive"


def test_pipelined_requests_are_answered_in_order(raw: Callable[[], Raw]) -> None:
    connection = raw()
    paths = [f"/echo?n={n}" if n % 3 else "/generator" for n in range(100)]
    connection.socket.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in paths[:-1]))
    connection.send(f"GET {paths[-1]} HTTP/1.1", "Host: x", "Connection: close")
    data = connection.rest()
    assert data.count(b"HTTP/1.1 200 OK\r\n") == 100
    found = [data.find(f'["n","{n}"]'.encode()) for n in range(100) if n % 3]
    assert found == sorted(found) and -1 not in found


def test_a_body_is_asked_for(raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send("POST /echo HTTP/1.1", "Host: x", "Content-Length: 4", "Expect: 100-continue")
    assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.socket.sendall(b"body")
    assert json.loads(connection.answer()[2])["body"] == "body"


def test_an_answer_before_the_end_of_the_body_is_seen(client: httpx.Client, raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send("POST /early HTTP/1.1", "Host: x", f"Content-Length: {50 << 20}")

    def upload() -> None:
        try:
            for _ in range(50):
                connection.socket.sendall(bytes(1 << 20))
        except OSError:
            pass

    sending = threading.Thread(target=upload)
    sending.start()
    status, headers, body = connection.answer()
    assert (status, headers["connection"], body) == (401, "close", b"no, thanks")
    connection.socket.close()
    sending.join(SECONDS)
    assert not sending.is_alive()


def test_an_upgrade_to_what_is_not_spoken_is_left_alone(raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send(
        "GET /echo HTTP/1.1", "Host: x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA"
    )
    assert connection.answer()[0] == 200
    connection.send(
        "POST /echo HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: x", "Content-Length: 2", body=b"ab"
    )
    assert json.loads(connection.answer()[2])["body"] == "ab"
    connection.send("GET /text HTTP/1.1", "Host: x")
    assert connection.answer()[0] == 200


def test_a_stream_begins_before_its_first_item(raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send("GET /quiet HTTP/1.1", "Host: x")
    assert b"transfer-encoding: chunked" in connection.socket.recv(1000)


def test_events_come_as_they_happen(client: httpx.Client) -> None:
    with client.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(4)] == ["data: 0", "", "data: 0", ""]
    wait_until(lambda: "events ended" in client.get("/seen").json(), SECONDS, "the end of the generator")


def test_what_raises_after_it_has_begun_is_cut_visibly(client: httpx.Client, raw: Callable[[], Raw]) -> None:
    for path in ("/break", "/break?length", "/infinite"):
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(path)
    connection = raw()
    connection.send("GET /break HTTP/1.1", "Host: x")
    data = connection.rest()
    assert data.endswith(b"\r\n5\r\nbegun\r\n")


def test_an_http_exception_is_an_answer(client: httpx.Client) -> None:
    answer = client.get("/refuse")
    assert (answer.status_code, answer.text, answer.headers["x-own"]) == (418, "a teapot", "yes")


def test_a_handler_is_cancelled_when_its_client_goes_away(client: httpx.Client, raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send("GET /sleep HTTP/1.1", "Host: x")
    wait_until(lambda: "sleeping" in client.get("/seen").json(), SECONDS, "the handler")
    connection.socket.close()
    wait_until(lambda: "sleep cancelled" in client.get("/seen").json(), SECONDS, "the end of the handler")


def test_a_stream_that_never_waits_ends_with_its_client(client: httpx.Client, raw: Callable[[], Raw]) -> None:
    connection = raw()
    connection.send("GET /endless HTTP/1.1", "Host: x")
    assert connection.socket.recv(1 << 20)
    connection.socket.close()
    assert client.get("/text").status_code == 200


def test_a_blocked_loop_is_told_by_its_line(client: httpx.Client, tmp_path: Path) -> None:
    told = tmp_path / "told"
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.get, "/block", params={"until": str(told)})
        try:
            wait_until(lambda: "time.sleep(0.7)  # the line that blocks" in _logs(), SECONDS, "a warning")
        finally:
            told.touch()
        assert asked.result().text == "done"


def test_a_traceback_is_in_the_log_of_the_replica(client: httpx.Client) -> None:
    client.get("/raise", headers={"x-request-id": "find me"})
    wait_until(lambda: "find me" in _logs() and "ValueError: secret words" in _logs(), SECONDS, "the traceback")


def _logs() -> str:
    directory = Path(str(kernel.init(ignore_reinit_error=True)["session_dir"])) / "logs"
    return "".join(each.read_text(errors="replace") for each in directory.rglob("*") if each.is_file())


def test_kinds_of_deployments(client: httpx.Client) -> None:
    @serve.deployment
    def plain(request: Request) -> str:
        return threading.current_thread().name

    @serve.deployment
    async def coroutine(request: Request) -> str:
        return threading.current_thread().name

    @serve.deployment
    def generator(request: Request) -> Iterator[str]:
        yield "a"
        yield "b"

    @serve.deployment
    async def async_generator(request: Request) -> Any:
        yield "a"
        yield {"b": 1}

    @serve.deployment
    class Plain:
        def __call__(self, request: Request) -> str:
            raise StopIteration

    expected = {"plain": "serve request", "coroutine": "serve data loop", "generator": "ab", "async_generator": "a"}
    for each in (plain, coroutine, generator, async_generator):
        serve.run(each.bind(), name=each.name, route_prefix=f"/{each.name}")
        answer = client.get(f"/{each.name}")
        assert answer.status_code == 200
        assert answer.text.startswith(expected[each.name])
        serve.delete(each.name)
    serve.run(Plain.bind(), name="Plain", route_prefix="/Plain")
    assert client.get("/Plain").status_code == 500
    serve.delete("Plain")
    assert "/Plain" not in client.get("/-/routes").json()


def test_limits_of_time(client: httpx.Client) -> None:
    @serve.deployment(request_timeout_s=0.4, max_ongoing_requests=1)
    class Slow:
        async def __call__(self, request: Request) -> None:
            if "body" in request.query_params:
                await request.body()
            await asyncio.Event().wait()

    serve.run(Slow.bind(), name="slow", route_prefix="/slow")
    began = time.monotonic()
    answer = client.get("/slow")
    assert answer.status_code == 408
    assert time.monotonic() - began > 0.3
    answer = client.post("/slow?body", content=bytes(2_000_000))
    assert answer.status_code == 408
    with ThreadPoolExecutor(2) as threads:  # one is worked on, the other waits for that
        assert {each.status_code for each in threads.map(client.get, ["/slow"] * 2)} == {408}
    serve.delete("slow")


def test_limits_of_queues(client: httpx.Client, tmp_path: Path) -> None:
    @serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
    class Slow:
        async def __call__(self, request: Request) -> str:
            (tmp_path / "begun").touch()
            while not (tmp_path / "go").exists():
                await asyncio.sleep(0.01)
            return "late"

    serve.run(Slow.bind(), name="slow", route_prefix="/slow")
    with ThreadPoolExecutor(8) as threads:
        try:
            asked = [threads.submit(client.get, "/slow")]
            wait_until((tmp_path / "begun").exists, SECONDS, "the first request")
            asked += [threads.submit(client.get, "/slow") for _ in range(7)]
            wait_until(lambda: sum(each.done() for each in asked) >= 6, SECONDS, "those that are refused")
        finally:
            (tmp_path / "go").touch()
    answers = [each.result() for each in asked]
    assert sorted(each.status_code for each in answers) == [200] * 2 + [503] * 6
    refused = next(each for each in answers if each.status_code == 503)
    assert int(refused.headers["retry-after"]) >= 1
    assert "max_queued_requests=1" in refused.text
    serve.delete("slow")
    assert client.get("/slow").status_code == 500  # what serves "/" knows no such name


def test_requests_of_a_deleted_application_end(client: httpx.Client, tmp_path: Path) -> None:
    @serve.deployment(max_ongoing_requests=1, graceful_shutdown_timeout_s=0.5, graceful_shutdown_wait_loop_s=0.1)
    class Stuck:
        async def __call__(self, request: Request) -> None:
            (tmp_path / "begun").touch()
            await asyncio.Event().wait()

    serve.run(Stuck.bind(), name="stuck", route_prefix="/stuck")
    answers: list[int] = []
    asking = [threading.Thread(target=lambda: answers.append(client.get("/stuck").status_code)) for _ in range(3)]
    for each in asking:
        each.start()
    wait_until((tmp_path / "begun").exists, SECONDS, "a request under way")
    serve.delete("stuck")
    for each in asking:
        each.join(SECONDS)
    assert not any(each.is_alive() for each in asking)
    afresh = client.get("/stuck").status_code  # of the application at "/", to which the path belongs now
    assert set(answers) <= {503, 404, afresh}


def test_a_plain_handler_keeps_its_room_until_it_ends(
    client: httpx.Client, raw: Callable[[], Raw], tmp_path: Path
) -> None:
    @serve.deployment(max_ongoing_requests=1)
    class Plain:
        def __init__(self) -> None:
            self.running = 0

        def __call__(self, request: Request) -> str:
            self.running += 1
            (tmp_path / "begun").touch()
            assert self.running == 1
            while request.query_params and not (tmp_path / "go").exists():
                time.sleep(0.01)
            self.running -= 1
            return "ended"

    serve.run(Plain.bind(), name="plain", route_prefix="/plain")
    connection = raw()
    connection.send("GET /plain?wait HTTP/1.1", "Host: x")
    wait_until((tmp_path / "begun").exists, SECONDS, "the handler")
    connection.socket.close()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(client.get("/plain").text))
    asking.start()
    asking.join(0.3)
    assert not answers
    (tmp_path / "go").touch()
    asking.join(SECONDS)
    assert answers == ["ended"]
    serve.delete("plain")


def test_what_is_not_there(client: httpx.Client) -> None:
    assert client.get("/-/nothing").status_code == 404
    assert client.get("/-/healthz").text == "success"
    serve.delete("results")
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert len(answer.headers["x-request-id"]) > 16
    for path in ("/nowhere", "/-/nothing", "/-/healthz"):
        assert client.get(path, headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert answer.text == "nothing is served at '/nowhere': there is no route yet"
    serve.run(Results.bind(), name="results")
    assert client.get("/text").status_code == 200


SMUGGLED = [
    b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd",
    b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"GET /echo HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    b"GET /echo HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
    b"GET /echo HTTP/1.1\nHost: x\n\n",
    b"GET /echo HTTP/3.7\r\n\r\n",
    b"CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


WEBSOCKET = (
    "GET /ws HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([*WEBSOCKET, "Content-Length: 4"], "unsupported request body"),
        ([*WEBSOCKET, "Transfer-Encoding: chunked"], "transfer codings aren't supported"),
        ([*WEBSOCKET, "X: " + "y" * 20_000], "expected no more than 8192 bytes"),
        ([*WEBSOCKET, *["X: y"] * 200], "expected no more than 128 headers"),
        ([*WEBSOCKET, "", "\xff" * 9], "its first bytes are no frames of a WebSocket"),
    ],
)
def test_the_beginning_of_a_websocket_that_is_none_is_refused(
    raw: Callable[[], Raw], lines: list[str], said: str
) -> None:
    connection = raw()
    connection.send(*lines)
    status, _, body = connection.answer()
    assert status == 400
    assert body.startswith(b"this is not the beginning of a WebSocket: ") and said in body.decode()
    assert connection.rest() == b""


@pytest.mark.parametrize("request_", SMUGGLED)
def test_requests_that_others_read_otherwise_are_refused(raw: Callable[[], Raw], request_: bytes) -> None:
    connection = raw()
    connection.socket.sendall(request_)
    answers = connection.rest()
    assert answers.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")) and answers.count(b"HTTP/1.1") == 1


def test_the_proxy_outlives_any_input(client: httpx.Client, address: tuple[str, int]) -> None:
    random = Random(7)
    good = [
        b"GET /text?a=%41 HTTP/1.1\r\nHost: x\r\nX-Request-Id: 1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde",
        b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"GET /-/routes HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /generator HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    ]
    before = len(_of_proxy())
    for _ in range(5000):
        data = bytearray(random.choice(good) if random.random() < 0.9 else random.randbytes(random.randrange(300)))
        for _ in range(random.randrange(6)):
            at = random.randrange(len(data) + 1)
            data[at : at + random.randrange(4)] = random.choice((b"", b"\r\n", b":", b"%", random.randbytes(3)))
        with socket.create_connection(address, SECONDS) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)  # by which it ends: the proxy itself has more patience than the client
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1 << 16):
                    pass
    assert client.get("/text").text == "grüß"
    assert not _of_proxy()[before:], "\n".join(_of_proxy()[before:])


def _of_proxy() -> list[str]:
    return [line for line in _logs().splitlines() if "\tProxyActor\terr\t" in line]


def test_idle_connections_cost_others_nothing(client: httpx.Client, address: tuple[str, int]) -> None:
    """By hand for more: SERVE_TEST_IDLE=10000 pytest -k idle_connections (needs as many open files)."""
    number = int(os.environ.get("SERVE_TEST_IDLE", "1000"))
    before = _memory(client)["proxy"]
    with contextlib.ExitStack() as idle:
        for _ in range(number):
            idle.enter_context(socket.create_connection(address, SECONDS))
        for _ in range(200):
            assert client.get("/text").status_code == 200
        assert (_memory(client)["proxy"] - before) / number < 16 << 10
