"""The end of WebSockets whose applications do not notice that the client has gone."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from websockets.sync.client import ClientConnection, connect

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


async def deaf(scope: Any, receive: Any, send: Any) -> None:
    """Sleep on, whatever the client does; that it is cancelled it shows by the file that the query names."""
    if scope["type"] == "lifespan":
        return
    await receive()
    await send({"type": "websocket.accept"})
    try:
        await asyncio.sleep(600)
    finally:
        Path(scope["query_string"].decode()).touch()


def test_one_that_outstays_its_client_is_cancelled(address: tuple[str, int], tmp_path: Path) -> None:
    @serve.deployment(max_ongoing_requests=1, graceful_shutdown_timeout_s=0.5)
    @serve.ingress(deaf)
    class Deaf:
        pass

    def client(name: str) -> ClientConnection:
        path = "ws://{}:{}/deaf?{}".format(*address, tmp_path / name)
        return connect(path, open_timeout=SECONDS, additional_headers={"x-request-id": name})

    serve.run(Deaf.bind(), name="deaf", route_prefix="/deaf")
    with client("first") as socket:
        assert socket.response is not None and socket.response.headers["x-request-id"] == "first"
        with pytest.raises(TimeoutError):
            socket.recv(0.7)  # with its client it may stay as long as it likes
        assert not (tmp_path / "first").exists()
    with client("second"):  # the only slot is free
        assert (tmp_path / "first").exists()
    said = "a WebSocket of Deaf went on for 0.5 s after its client had gone, and is cancelled"
    directory = Path(str(kernel.init(ignore_reinit_error=True)["session_dir"])) / "logs"

    def told() -> bool:
        logs = [each.read_text(errors="replace") for each in directory.rglob("*") if each.is_file()]
        return any(said in line and "first" in line for log in logs for line in log.splitlines())

    wait_until(told, SECONDS, "the warning")
    serve.delete("deaf")


def test_one_that_takes_nothing_is_cancelled_also_if_its_client_was_far_ahead(
    address: tuple[str, int], tmp_path: Path
) -> None:
    @serve.deployment(max_ongoing_requests=1, graceful_shutdown_timeout_s=0.5)
    @serve.ingress(deaf)
    class Deaf:
        pass

    serve.run(Deaf.bind(), name="flooded", route_prefix="/flooded")
    with connect("ws://{}:{}/flooded?{}".format(*address, tmp_path / "first"), open_timeout=SECONDS) as client:
        for _ in range(5):
            client.send(bytes(1 << 20))
        client.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: (tmp_path / "first").exists(), SECONDS, "the slot is free")
    serve.delete("flooded")
