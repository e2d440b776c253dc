"""Processes of two nodes speak over TCP, past the gateway on one node, and hear of it when one can't be reached."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.transport.tcp_connection import TcpConnection

from kernel.testing.roots import temporary_root
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.node.networks import OWN
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.unix_listener import UnixListener
from kernel_spec.ids import ProcessId

TOKEN = b"t" * 32
HELLO_WORLD = 99
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
NEVER = 600.0
"""Longer than a test may take."""


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


class Node:
    """A node as far as its processes see it: an agent that answers, and a gateway; both in one thread."""

    def __init__(self, directory: Path) -> None:
        (directory / "sockets").mkdir(parents=True)
        self.directory = str(directory)
        self.reactor = Reactor()
        self.refused: list[str] = []
        self.listener = UnixListener(
            str(directory / "agent.sock"), TOKEN, self.reactor, self._answer, lambda c, r: None, self.refused.append
        )
        self.gateway = Gateway("127.0.0.1", 0, TOKEN, self.reactor, str(directory / "sockets"), self.refused.append)
        self.processes: list[Process] = []
        self._ending = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def process(self, number: int, gateway: bool = True) -> Process:
        id = ProcessId(number.to_bytes(8, "big"))
        place = self.gateway.address if gateway else ""
        process = Process(Identity(id, "worker", b"node", b"job", self.directory, TOKEN, place, network=OWN))
        process.start({})
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.stop()
        self._ending = True
        self.reactor.wake()
        self._thread.join()
        self.gateway.close()
        self.listener.close()
        self.reactor.close()

    def _run(self) -> None:
        while not self._ending:
            self.reactor.poll(1.0)

    def _answer(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if message[0] == op.CALL:
                connection.send((op.REPLY, message[1], {}))
        connection.flush()


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    with temporary_root() as root:  # pytest's own directories may be too long for sockets
        pair = Node(Path(root, "a")), Node(Path(root, "b"))
        yield pair
        for node in pair:
            node.stop()


def listen(process: Process) -> list[Any]:
    received: list[Any] = []
    process.handlers[HELLO_WORLD] = lambda connection, message: received.append(message[1])
    return received


def lost(process: Process) -> list[tuple[bytes, str]]:
    peers: list[tuple[bytes, str]] = []
    process.on_peer_lost.append(lambda peer, reason: peers.append((peer.id, reason)))
    return peers


def say(process: Process, to: Process | ProcessId, address: str, *words: Any) -> Connection:
    with process.lock:
        connection = process.peer(to if isinstance(to, bytes) else to.id, address)
        for word in words:
            process.send(connection, (HELLO_WORLD, word))
    process.flush_soon()
    return connection


def test_processes_of_two_nodes_speak_and_answer(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    assert one.address == f"tcp://{nodes[0].gateway.address}/{one.id.hex()}"
    received = listen(other)
    other.methods["double"] = lambda value: value * 2
    connection = say(one, other, other.address, *range(1000))
    assert isinstance(connection, TcpConnection)
    until(lambda: received == list(range(1000)))
    assert one.result(one.request(connection, "double", 21), SECONDS) == 42
    assert nodes[0].refused == nodes[1].refused == []


def test_both_may_begin_at_once_and_order_is_kept(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received_one, received_other = listen(one), listen(other)
    for number in range(300):
        say(one, other, other.address, number)
        say(other, one, one.address, number)
    until(lambda: len(received_one) == len(received_other) == 300)
    assert received_one == received_other == list(range(300))


def test_on_one_node_the_gateway_is_passed_by(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[0].process(2)
    received = listen(other)
    connection = say(one, other, other.address, "near")
    assert not isinstance(connection, TcpConnection)
    until(lambda: received == ["near"])


def test_without_a_gateway_there_is_no_socket_receiver(nodes: tuple[Node, Node]) -> None:
    process = nodes[0].process(1, gateway=False)
    assert process.address == process.identity.socket_path(process.id)
    assert not os.path.exists(process.address + ".in")
    with_one = nodes[0].process(2)
    receiver = with_one.identity.socket_path(with_one.id) + ".in"
    assert os.stat(receiver).st_mode & 0o777 == 0o600
    with_one.stop()
    nodes[0].processes.remove(with_one)
    assert not os.path.exists(receiver)


def test_a_peer_that_was_never_there_is_lost_late(nodes: tuple[Node, Node]) -> None:
    one = nodes[0].process(1)
    peers = lost(one)
    nobody = ProcessId(b"\x07" * 8)
    connection = say(one, nobody, f"tcp://{nodes[1].gateway.address}/{nobody.hex()}", "unheard")
    request = one.request(connection, "anything")
    until(lambda: peers)
    assert peers[0][0] == nobody
    assert "of that name is there" in peers[0][1]
    assert (HELLO_WORLD, "unheard") in connection.outbox  # whoever sent it may see that it never left
    with pytest.raises(Exception, match="nobody of that name is there"):
        one.result(request, SECONDS)
    assert one.peers.sending == {}


def test_a_node_that_is_gone_loses_the_peer(nodes: tuple[Node, Node]) -> None:
    one = nodes[0].process(1)
    peers = lost(one)
    nobody = ProcessId(b"\x07" * 8)
    nodes[1].gateway.close()
    say(one, nobody, f"tcp://{nodes[1].gateway.address}/{nobody.hex()}", "unheard")
    until(lambda: peers)
    assert "can't be reached: Connection refused" in peers[0][1]


def test_a_peer_that_ends_is_lost_once(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received, peers = listen(other), lost(one)
    say(one, other, other.address, "hello")
    until(lambda: received)
    other.stop()
    nodes[1].processes.remove(other)
    until(lambda: peers)
    assert [peer for peer, _ in peers] == [other.id]
    say(one, other, other.address, "too late")
    until(lambda: len(peers) == 2)


def test_who_can_be_heard_but_not_reached_is_lost(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received, peers = listen(one), lost(one)
    say(other, one, one.address, "hello")
    until(lambda: received)
    with one.lock:
        incoming = one.peers.sending.pop(other.id)
        nodes[1].gateway.close()  # from here on nobody reaches the other node
        one.send(one.peer(other.id, other.address), (HELLO_WORLD, "unheard"))
    one.flush_soon()
    until(lambda: peers)
    assert [peer for peer, _ in peers] == [other.id]
    assert incoming.closed


def test_last_words_wait_for_the_connection(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received = listen(other)
    with one.lock:
        one.send(one.peer(other.id, other.address), (HELLO_WORLD, "last"))
    one.write_out()
    one.stop()
    nodes[0].processes.remove(one)
    until(lambda: received == ["last"])


def test_a_cut_is_no_loss(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received, answered, peers = listen(other), listen(one), lost(one) + lost(other)
    waiting: list[Any] = []
    other.methods["later"] = lambda: waiting.append(1)
    connection = say(one, other, other.address, *range(100))
    request = one.request(connection, "later")
    until(lambda: len(received) == 100 and waiting)
    for process in (one, other):
        for link in process.peers.all:
            if isinstance(link, TcpConnection):  # it comes back at once, as soon as the machine lets it
                link.ended_seconds = link.resume_seconds = NEVER
    for number in range(100, 120):
        connection._socket.shutdown(socket.SHUT_RDWR)
        say(one, other, other.address, number)
        say(other, one, one.address, number)
        until(lambda number=number: received[-1] == number and answered[-1:] == [number])  # type: ignore[misc]
    assert received == list(range(120)) and answered == list(range(100, 120))
    assert one.result(request, SECONDS) is None
    assert peers == [] and one.peer(other.id, other.address) is connection


def test_a_peer_that_comes_anew_has_lost_what_was(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received, answered, peers = listen(other), listen(one), lost(other)
    connection = say(one, other, other.address, "old")
    until(lambda: received == ["old"])
    with one.lock:
        connection.give_up("it took too long")  # without a goodbye
    say(one, other, other.address, "new")
    until(lambda: received == ["old", "new"])
    assert [peer for peer, _ in peers] == [one.id]
    say(other, one, one.address, "answer")
    until(lambda: answered == ["answer"])


def test_a_process_that_is_killed_is_lost_at_once(nodes: tuple[Node, Node]) -> None:
    one, other = nodes[0].process(1), nodes[1].process(2)
    received, peers = listen(other), lost(one)
    connection = say(one, other, other.address, "hello")
    assert isinstance(connection, TcpConnection)
    connection.wait_at_least(NEVER)  # if it was the network that had cut it
    until(lambda: received)
    other.closing = True  # as if killed: the sockets end, and nobody says goodbye
    other.pump.stop()
    os.unlink(other.identity.socket_path(other.id) + ".in")
    for link in other.peers.all:
        link._socket.shutdown(socket.SHUT_RDWR)
    until(lambda: peers)
    assert [peer for peer, _ in peers] == [other.id]
