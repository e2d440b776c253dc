"""A port that a proxy can't have: one error with the port, the program that has it, and what to do."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_serve.errors import ServeError
from kernel_serve.proxy import ports
from kernel_serve.proxy.grpc_server import GRPCServer
from kernel_serve.proxy.listening import bind, listening_socket
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.testing.grpc_world import OneReplica

import kernel

SERVICE = "kernel_serve.examples.words_rpc:add_WordsServicer_to_server"


@pytest.fixture
def taken() -> Iterator[tuple[int, int]]:
    """A port that another process has, and which would even share it; the process."""
    program = (
        "import socket, sys; made = socket.socket(); made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); "
        "made.bind(('127.0.0.1', 0)); made.listen(); print(made.getsockname()[1], flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, "who has it"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        process.communicate()


def grpc_server(port: int) -> GRPCServer:
    """Return a server that is to take gRPC there."""
    return GRPCServer(OneReplica(object, ()), GRPCOptions(port=port, grpc_servicer_functions=(SERVICE,)))


def test_whoever_has_it_is_named(taken: tuple[int, int]) -> None:
    port, process = taken
    by = f": Address already in use, by process {process} ({sys.executable} -c import socket"

    async def go() -> None:
        with pytest.raises(ServeError) as http:
            await listening_socket(HTTPOptions(port=port), "node", 0)
        with pytest.raises(ServeError) as grpc:
            await grpc_server(port).start()
        for error, what, option in ((http, "listen", "http_options"), (grpc, "take gRPC", "grpc_options")):
            text = str(error.value)
            assert text.startswith(f"the proxy can't {what} on 127.0.0.1:{port}{by}") and "\n" not in text
            assert text.endswith(
                f'; give it another port, as in serve.start({option}={{"port": {port + 1}}}), or 0 for any that is free'
            )

    asyncio.run(go())


def test_our_own_and_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert ports.holder_of(port).startswith(f"process {os.getpid()} (")
        with pytest.raises(ServeError, match=f"can't listen on 127.0.0.1:{port}: Address already in use, by process"):
            bind(HTTPOptions(port=port))
    assert ports.holder_of(port) == ""
    ports.check_free("127.0.0.1", port)


def test_of_other_users_no_more_than_the_user_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_has", lambda process, inodes: False)
    with socket.create_server(("127.0.0.1", 0)) as ours:
        import pwd

        assert ports.holder_of(ours.getsockname()[1]) == f"a process of user {pwd.getpwuid(os.getuid()).pw_name}"


@pytest.mark.parametrize(
    ("host", "port", "where", "another"),
    [("::1", 8000, r"\[::1\]:8000", 8001), ("0.0.0.0", 80, "0.0.0.0:80", 8000), ("x", 65535, "x:65535", 8000)],
)
def test_what_is_not_taken_but_forbidden(host: str, port: int, where: str, another: int) -> None:
    error = PermissionError(13, "Permission denied")
    said: Any = ports.cannot_listen("listen", host, port, error, "http_options")
    with pytest.raises(
        ServeError, match=f'^the proxy can\'t listen on {where}: Permission denied; .*"port": {another}'
    ):
        raise said


def test_a_proxy_of_another_session_is_named_as_such() -> None:
    @kernel.remote
    class Holder:
        def __init__(self) -> None:
            self.listening = socket.create_server(("127.0.0.1", 0))

        def where(self) -> tuple[int, int]:
            return self.listening.getsockname()[1], os.getpid()

    kernel.shutdown()
    with kernel.init(num_cpus=1, log_to_driver=False):
        holder = Holder.remote()
        port, process = kernel.get(holder.where.remote())
        worker = "a worker of a kernel session, such as the proxy of another one"
        assert ports.holder_of(port) == f"process {process} ({worker})"


def test_a_long_command_is_cut(tmp_path: Path) -> None:
    (tmp_path / "cmdline").write_bytes(b"x\0" * 200)
    (tmp_path / "comm").write_bytes(b"x\n")
    assert ports._command(tmp_path) == "x " * 50 + "..."
    assert ports._command(tmp_path / "gone") == "which has just ended"
