"""TLS from end to end, in a real session: every protocol, bodies both ways, and what is said when it can't be."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket
from kernel_serve.errors import ServeError
from starlette.responses import StreamingResponse
from websockets.sync.client import connect

import kernel
from kernel import serve

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0

app = FastAPI()


@app.post("/size")
async def size(request: Request) -> dict[str, Any]:
    total = 0
    async for piece in request.stream():
        total += len(piece)
    return {"size": total, "scheme": request.url.scheme, "version": request.scope["http_version"]}


@app.get("/large")
async def large(size: int) -> StreamingResponse:
    return StreamingResponse(bytes(1 << 20) for _ in range(size >> 20))


@app.post("/early")
async def early() -> StreamingResponse:
    return StreamingResponse(iter(["no, thanks"]), 401)


@app.websocket("/echo")
async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text(websocket.url.scheme)
    while True:
        await websocket.send_bytes(await websocket.receive_bytes())


@pytest.fixture(scope="module")
def where(certificate: tuple[str, str]) -> Iterator[str]:
    kernel.shutdown()
    with kernel.init(num_cpus=16, log_to_driver=False):
        files = {"ssl_certfile": certificate[0], "ssl_keyfile": certificate[1]}
        serve.start(http_options={"port": 0, "access_log": False, **files})

        @serve.deployment(max_ongoing_requests=20)
        @serve.ingress(app)
        class Shop:
            pass

        serve.run(Shop.bind(), name="shop")
        yield next(iter(serve.status()["proxies"].values()))["address"]
        serve.shutdown()


@pytest.fixture
def trust(certificate: tuple[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate[0])


@pytest.mark.parametrize(("version", "large"), [("1.1", 30 << 20), ("2", 5 << 20)])
def test_bodies_pass_both_ways(where: str, trust: ssl.SSLContext, version: str, large: int) -> None:
    with httpx.Client(base_url=f"https://{where}", verify=trust, http2=version == "2", timeout=SECONDS) as client:
        for size in (0, 1, large):
            answer = client.post("/size", content=bytes(size))
            assert answer.json() == {"size": size, "scheme": "https", "version": version}
            assert answer.http_version == f"HTTP/{version}"
        pieces = (bytes(1 << 20) for _ in range(large >> 20))
        assert client.post("/size", content=pieces).json()["size"] == large
        assert len(client.get(f"/large?size={large}").content) == large


def test_an_answer_before_the_end_of_the_body_is_seen(where: str, trust: ssl.SSLContext) -> None:
    host, _, port = where.rpartition(":")
    with trust.wrap_socket(socket.create_connection((host, int(port)), SECONDS), server_hostname=host) as connection:
        connection.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n" + bytes(1 << 20))
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 401 ") and b"no, thanks" in answer


def test_websockets_pass_through(where: str, trust: ssl.SSLContext) -> None:
    with connect(f"wss://{where}/echo", ssl=trust, open_timeout=SECONDS, max_size=None) as websocket:
        assert websocket.recv(SECONDS) == "wss"
        for message in (b"", b"hello", bytes(5_000_000)):
            websocket.send(message)
            assert websocket.recv(SECONDS) == message


def test_who_speaks_no_tls_is_cut_off_and_nothing_is_logged(where: str, trust: ssl.SSLContext) -> None:
    host, _, port = where.rpartition(":")
    before = _logs()
    for data in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello",
        b"",
    ):
        with socket.create_connection((host, int(port)), SECONDS) as connection:
            connection.sendall(data)
            if not data:
                continue  # gone before it has said anything
            received = b""
            try:
                while piece := connection.recv(1 << 16):
                    received += piece
            except ConnectionResetError:
                pass
            assert b"HTTP/" not in received
    assert httpx.get(f"https://{where}/large?size=0", verify=trust, timeout=SECONDS).status_code == 200
    assert "Traceback" not in _logs()[len(before) :]


def test_a_certificate_that_is_not_there_is_told_and_changes_nothing(where: str, trust: ssl.SSLContext) -> None:
    with pytest.raises(ServeError, match=r"can't read ssl_certfile='/no/such\.pem': No such file or directory"):
        serve.start(http_options={"port": 0, "ssl_certfile": "/no/such.pem"})
    assert httpx.get(f"https://{where}/large?size=0", verify=trust, timeout=SECONDS).status_code == 200


def _logs() -> str:
    directory = Path(str(kernel.init(ignore_reinit_error=True)["session_dir"])) / "logs"
    return "".join(each.read_text(errors="replace") for each in sorted(directory.rglob("*")) if each.is_file())
