"""What fails between two messages is logged, and the process goes on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel.runtime.waiter import Waiter
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process import Peer, Process
from kernel_processes.transport.connection import Connection

LOGGED = "something failed between two messages"


@pytest.fixture
def process(tmp_path: Any) -> Iterator[Process]:
    process = Process(Identity(b"process1", "worker", b"node", b"job", str(tmp_path), b"token"))  # type: ignore[arg-type]
    yield process
    process.pump.stop()
    process.reactor.close()


def fail(*arguments: Any) -> None:
    raise RuntimeError("broken")


def add_peer(process: Process, name: bytes) -> tuple[Connection, socket.socket]:
    """Return a connection to a peer, and its end of it."""
    ours, theirs = socket.socketpair()
    connection = Connection(ours, process.reactor, None, process._on_messages, process._on_close)
    connection.info = Peer(name, "worker", 0, "", via=connection)  # type: ignore[arg-type]
    process.peers.all.add(connection)
    process.peers.sending[connection.info.id] = connection
    return connection, theirs


def test_everybody_hears_of_a_lost_peer_whoever_fails(process: Process) -> None:
    arrived: list[bytes] = []
    process.on_peer_lost += [fail, lambda peer, reason: arrived.append(peer.id)]
    process.after_batch([1], fail)
    _, theirs = add_peer(process, b"peer")
    theirs.close()
    with capture_logs() as logs:
        process.pump.poll_now()
    assert arrived == [b"peer"]
    assert [line["event"] for line in logs] == [LOGGED] * 2


def test_a_timer_that_fails_ends_nobodys_wait(process: Process) -> None:
    done = Waiter()
    process.reactor.call_later(0, fail)
    process.reactor.call_later(0.001, done.complete)
    with capture_logs() as logs:
        assert process.pump.wait(done, time.monotonic() + 120)
    assert [line["event"] for line in logs] == [LOGGED]


def test_the_background_thread_survives_what_fails_in_it(process: Process) -> None:
    went_on = threading.Event()

    def tick() -> None:
        process.pump.on_tick = went_on.set
        fail()

    process.pump.on_tick = tick
    with capture_logs() as logs:
        process.pump.start()
        assert went_on.wait(120)
    assert [line["event"] for line in logs] == [LOGGED]


def test_last_words_wait_for_peers_that_read_slowly_but_not_for_ever(process: Process) -> None:
    deaf, deaf_end = add_peer(process, b"deaf")
    slow, slow_end = add_peer(process, b"slow")
    words = bytes(4 << 20)
    for connection in (slow, deaf):
        process.send(connection, (1, words))
    received: list[int] = []

    def read() -> None:
        while data := slow_end.recv(1 << 16):
            received.append(len(data))

    reader = threading.Thread(target=read)
    reader.start()
    process.peers.all = {slow}
    process.write_out(600)  # ends when all is written: no test may take so long
    process.peers.all = {deaf}
    process.write_out(0.05)
    slow.close()
    reader.join(120)
    assert sum(received) > len(words)
    deaf.close()
    deaf_end.close()
    slow_end.close()
