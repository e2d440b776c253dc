"""Proxies get other options while clients connect all the time: none of them notices."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from kernel_serve.errors import ServeError
from kernel_serve.proxy import syn_filter
from kernel_serve.proxy.grpc_server import GRPCServer
from kernel_serve.proxy.syn_filter import filter_syns
from kernel_serve.settings import GRPCOptions
from kernel_serve.testing.grpc_world import OneReplica

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

SECONDS = 120.0
SERVICE = "kernel_serve.examples.words_rpc:add_WordsServicer_to_server"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The first bytes of an HTTP/2 connection: the server answers with its own settings."""


@serve.deployment
def hello() -> str:
    return "hello"


@pytest.fixture(scope="module")
def proxy() -> Iterator[tuple[int, int]]:
    """The ports of HTTP and gRPC."""
    kernel.shutdown()
    with kernel.init(num_cpus=4, log_to_driver=False):
        serve.start(
            http_options={"port": 0, "access_log": False},
            grpc_options={"port": 0, "grpc_servicer_functions": [SERVICE]},
        )
        serve.run(hello.bind())
        (found,) = serve.status()["proxies"].values()
        yield tuple(int(found[name].rpartition(":")[2]) for name in ("address", "grpc_address"))  # type: ignore[misc]
        serve.shutdown()


def one_proxy_left() -> None:
    wait_until(lambda: len(serve.status()["proxies"]) == 1, SECONDS, "one proxy alone")


@contextmanager
def all_the_time(ask: Any) -> Iterator[list[Any]]:
    """Do it over and over in threads; what went wrong is in the list, which must stay empty."""
    wrong: list[Any] = []
    done, over = [0], threading.Event()

    def go() -> None:
        while not over.is_set():
            try:
                ask()
                done[0] += 1
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: done[0] or wrong, SECONDS, "a first answer")
    yield wrong
    over.set()
    for thread in threads:
        thread.join()


def ask_grpc(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(PREFACE)
        assert connection.recv(1)


def test_a_host_that_is_not_here_is_named_and_nothing_is_interrupted(proxy: tuple[int, int]) -> None:
    before = serve.status()["proxies"]
    with all_the_time(lambda: urlopen(f"http://127.0.0.1:{proxy[0]}/", timeout=SECONDS).read()) as wrong:
        with pytest.raises(
            ServeError, match="can't listen on 203.0.113.7:.*: Cannot assign requested address; name an"
        ):
            serve.start(http_options={"host": "203.0.113.7", "port": proxy[0]})
    assert wrong == []
    one_proxy_left()
    assert serve.status()["proxies"].keys() == before.keys()


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_another_host_at_the_same_port_loses_no_request(proxy: tuple[int, int], host: str) -> None:
    with all_the_time(lambda: urlopen(f"http://127.0.0.1:{proxy[0]}/", timeout=SECONDS).read()) as wrong:
        serve.start(http_options={"host": host, "port": proxy[0], "access_log": False})
        one_proxy_left()
    assert wrong == []
    (found,) = serve.status()["proxies"].values()
    assert found["address"] == f"{host}:{proxy[0]}"


def test_no_connection_to_grpc_is_refused_while_its_options_change(proxy: tuple[int, int]) -> None:
    with all_the_time(lambda: ask_grpc(proxy[1])) as wrong:
        for seconds in (20, 21, 22):
            serve.start(
                grpc_options={
                    "port": proxy[1], "grpc_servicer_functions": [SERVICE], "request_timeout_s": seconds,
                }
            )  # fmt: skip
            one_proxy_left()
    assert wrong == []


def test_who_begins_to_connect_is_held_off_and_comes_to_the_next_one() -> None:
    with socket.socket() as first, socket.socket() as second, socket.socket() as client:
        for each in (first, second):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        first.listen()
        with socket.create_connection(first.getsockname()) as early:
            filter_syns(first.getsockname()[1])
            client.setblocking(False)
            assert client.connect_ex(first.getsockname())
            second.bind(first.getsockname())
            second.listen()
            first.settimeout(0)
            taken, who = first.accept()  # who was there before is there still, and nobody else
            assert who == early.getsockname()
            taken.close()
            with pytest.raises(BlockingIOError):
                first.accept()
            first.close()
            second.settimeout(SECONDS)
            taken, who = second.accept()
            assert who == client.getsockname()
            taken.close()


def test_a_server_whose_port_others_share_holds_off_before_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syn_filter, "SETTLE_SECONDS", 2.0)

    async def go() -> None:
        server = GRPCServer(OneReplica(object, ()), GRPCOptions(port=0, grpc_servicer_functions=(SERVICE,)))
        port = int((await server.start()).rpartition(":")[2])
        ending = asyncio.ensure_future(server.drain(others=True))
        await asyncio.sleep(0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 0.2)
        await ending
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(go())


def test_connections_that_wait_to_be_accepted_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syn_filter, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(syn_filter, "LONGEST_SECONDS", SECONDS)

    async def go() -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            port = listening.getsockname()[1]
            with socket.create_connection(listening.getsockname()), socket.create_connection(listening.getsockname()):
                assert syn_filter.queued(port) == 2
                settling = asyncio.ensure_future(syn_filter.settled(port))
                for left in (1, 0):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(asyncio.shield(settling), 0.2)
                    listening.accept()[0].close()
                    assert syn_filter.queued(port) == left
                await asyncio.wait_for(settling, SECONDS)

    asyncio.run(go())


def test_who_connects_when_serve_start_has_returned_comes_to_what_is_new(
    proxy: tuple[int, int], certificates: Path
) -> None:
    secure = {"ssl_certfile": str(certificates / "server.pem"), "ssl_keyfile": str(certificates / "server.key")}
    trusting = ssl.create_default_context(cafile=certificates / "server.pem")
    trusting.set_alpn_protocols(["h2"])
    http = {"port": proxy[0], "access_log": False}
    grpc = {"port": proxy[1], "grpc_servicer_functions": [SERVICE]}

    def speaks_tls(port: int) -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            try:
                with trusting.wrap_socket(connection, server_hostname="127.0.0.1"):
                    return True
            except (ssl.SSLError, ConnectionError):
                return False

    for more in (secure, {}) * 3:
        serve.start(http_options={**http, **more}, grpc_options={**grpc, **more})
        assert {(port, speaks_tls(port)) for _ in range(20) for port in proxy} == {(port, bool(more)) for port in proxy}
