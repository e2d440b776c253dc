"""The socket of a proxy goes from one to the next, and clients with idle connections are asked to close them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from kernel_serve.errors import ServeError
from kernel_serve.proxy.grpc_server import GRPCServer
from kernel_serve.proxy.listening import HANDING_SECONDS, Heirs, bind, listening_socket
from kernel_serve.proxy.server import HTTPServer
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.testing.grpc_world import OneReplica

SECONDS = 120.0
SERVICE = "kernel_serve.examples.words_rpc:add_WordsServicer_to_server"
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello", "more_body": False})


async def serving(listening: socket.socket) -> HTTPServer:
    server = HTTPServer(HTTPOptions(access_log=False), hello)
    await server.start(listening)
    return server


async def giving(heirs: Heirs) -> None:
    """Return when they give the socket to successors."""
    while heirs._server is None:
        await asyncio.sleep(0)


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
    assert await reader.readexactly(5) == b"hello"
    return head.lower()


def test_the_next_proxy_gets_the_socket_and_no_connection_is_refused_between() -> None:
    async def go() -> None:
        first = bind(HTTPOptions(port=0))
        first.listen()
        port = first.getsockname()[1]
        heirs = Heirs(first, "node", 0)
        await giving(heirs)
        second, follows = await listening_socket(HTTPOptions(port=port), "node", 0)
        third, also = await listening_socket(HTTPOptions(port=port), "node", 1)  # a second proxy of the node
        assert follows and also
        assert {each.getsockname()[1] for each in (second, third)} == {port}
        with socket.create_connection(("127.0.0.1", port)) as waiting:
            heirs.close()
            first.close()
            waiting.sendall(REQUEST)
            server = await serving(second)
            waiting.setblocking(False)
            loop = asyncio.get_running_loop()
            assert (await asyncio.wait_for(loop.sock_recv(waiting, 100), SECONDS)).startswith(b"HTTP/1.1 200")
            following = Heirs(second, "node", 0)
            await giving(following)
            again, _ = await listening_socket(HTTPOptions(port=port), "node", 0)
            following.close()
        await server.drain()
        again.close()
        third.close()

    asyncio.run(go())


def test_a_port_of_another_program_is_refused() -> None:
    async def go() -> None:
        taken = bind(HTTPOptions(port=0))
        taken.listen()
        with pytest.raises(
            ServeError, match="the proxy can't listen on 127.0.0.1:.*: Address already in use, by process"
        ):
            await listening_socket(HTTPOptions(port=taken.getsockname()[1]), "node", 0)
        taken.close()

    asyncio.run(go())


@pytest.mark.parametrize(("before", "after"), [("127.0.0.1", "0.0.0.0"), ("0.0.0.0", "127.0.0.1")])
def test_at_an_address_that_hides_the_one_before_both_listen_until_that_one_goes(before: str, after: str) -> None:
    async def go() -> None:
        first = bind(HTTPOptions(host=before, port=0))
        port = first.getsockname()[1]
        old = await serving(first)
        heirs = Heirs(first, "node", 0)
        options = HTTPOptions(host=after, port=port)
        await giving(heirs)
        with pytest.raises(ServeError, match="Address already in use, by process"):
            await listening_socket(options, "node", 0)
        second, follows = await listening_socket(options, "node", 0, (f"{before}:{port}",))
        assert not follows and second.getsockname() == (after, port)
        new = await serving(second)
        await asks("127.0.0.1", port)
        heirs.close()
        await old.drain()
        await asks("127.0.0.1", port)
        await new.drain()

    async def asks(host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(REQUEST)
        await answer(reader)
        writer.close()

    asyncio.run(go())


def test_a_host_is_found_by_its_name_as_by_its_address() -> None:
    async def go() -> None:
        first = bind(HTTPOptions(host="localhost", port=0))
        first.listen()
        heirs = Heirs(first, "node", 0)
        await giving(heirs)
        second, follows = await listening_socket(HTTPOptions(host="localhost", port=first.getsockname()[1]), "node", 0)
        assert follows and second.getsockname() == first.getsockname()
        heirs.close()
        second.close()
        first.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("host", "why"),
    [("203.0.113.7", "Cannot assign requested address"), ("no.such.invalid", ".*not known.*|.*resol.*")],
)
def test_a_host_that_is_not_here_is_named(host: str, why: str) -> None:
    said = f"the proxy can't listen on {host}:8000: ({why}); name an address of this machine, as in"
    with pytest.raises(ServeError, match=said):
        asyncio.run(listening_socket(HTTPOptions(host=host), "node", 0))


def test_an_idle_connection_is_told_to_leave_and_its_last_request_is_answered() -> None:
    async def go() -> None:
        server = await serving(bind(HTTPOptions(port=0)))
        assert server._server is not None
        port = server._server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert b"connection: close" not in await answer(reader)
        draining = asyncio.ensure_future(server.drain(SECONDS, patience=SECONDS))
        while not server.state.closing:
            await asyncio.sleep(0)
        writer.write(REQUEST)
        assert b"connection: close" in await answer(reader)
        await asyncio.wait_for(draining, SECONDS)
        assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    asyncio.run(go())


def test_a_request_that_is_half_there_is_answered_before_the_connection_ends() -> None:
    async def go() -> None:
        server = await serving(bind(HTTPOptions(port=0)))
        assert server._server is not None
        port = server._server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST[:20])
        while all(getattr(each, "is_idle", True) for each in server.state.connections):
            await asyncio.sleep(0)
        draining = asyncio.ensure_future(server.drain(SECONDS))
        while not server.state.closing:
            await asyncio.sleep(0)
        writer.write(REQUEST[20:])
        assert b"connection: close" in await answer(reader)
        await asyncio.wait_for(draining, SECONDS)
        writer.close()

    asyncio.run(go())


@pytest.mark.parametrize("takes", ["HTTP", "gRPC"])
def test_the_port_of_a_process_that_is_about_to_end_is_waited_for(takes: str) -> None:
    async def go() -> None:
        with socket.create_server(("127.0.0.1", 0)) as ending:
            port = ending.getsockname()[1]
            if takes == "HTTP":
                starting: Any = asyncio.ensure_future(listening_socket(HTTPOptions(port=port), "n", 0, (), SECONDS))
            else:
                options = GRPCOptions(port=port, grpc_servicer_functions=(SERVICE,))
                server = GRPCServer(OneReplica(object, ()), options)
                starting = asyncio.ensure_future(server.start(SECONDS))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(starting), 2 * HANDING_SECONDS)
        found = await asyncio.wait_for(starting, SECONDS)
        if takes == "HTTP":
            assert found[0].getsockname()[1] == port
            found[0].close()
        else:
            assert found == f"127.0.0.1:{port}"
            await server.drain(0)

    asyncio.run(go())
