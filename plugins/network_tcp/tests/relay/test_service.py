"""The relay at work: two gateways, a client that nobody can dial, and the process that passes the bytes."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest
from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.relay.link import RelayLink
from kernel_network_tcp.relay.service import RelayService
from kernel_network_tcp.transport import tcp_connection
from kernel_network_tcp.transport.connect import connect, open_socket
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.preamble import calling_back, opening

from kernel.testing.clocks import UnhurriedClock
from kernel_processes.cli import certificates
from kernel_processes.system.processes import is_alive
from kernel_processes.transport.addresses import parse_tcp, through
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import NodeId
from kernel_spec.tls_files import TlsFiles

TOKEN = b"t" * 32
CLIENT = NodeId(b"\x01" * 8)
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


class Gate:
    """A gateway with one service, and what that heard."""

    def __init__(self, reactor, directory, host="127.0.0.1", tls=None):
        self.arrived, self.closed, self.refused, self.served = [], [], [], []
        self.connections = []
        self.gateway = Gateway(host, 0, TOKEN, reactor, str(directory), self.refused.append, tls=tls)
        self.gateway.serve_connections("agent", self.on_messages, lambda c, r: self.closed.append(r))
        self.gateway.serve_sockets("transfer", self.served.append)

    def on_messages(self, connection, messages):
        if connection not in self.connections:
            self.connections.append(connection)
        self.arrived.extend(messages)


class World:
    """The head's gateway with its relay, a node's gateway, and a client, all in one loop."""

    def __init__(self, directory, tls=None):
        (directory / "logs").mkdir()
        self.tls = Credentials(tls) if tls is not None else None
        self.reactor = Reactor(UnhurriedClock())
        self.head, self.node = (Gate(self.reactor, directory, tls=self.tls) for _ in range(2))
        self.client = Gate(self.reactor, directory, host="", tls=self.tls)
        self.relay = RelayService(self.head.gateway, self.head.gateway.address, str(directory), self.reactor)
        self.relay.member(self.node.gateway.address, True)
        self.link = RelayLink(self.head.gateway.address, TOKEN, self.reactor, CLIENT, tls)
        self.place = self.link.join(SECONDS)
        self.link.begin(self.client.gateway.adopt)

    def connect(self, address, token=TOKEN):
        arrived, reasons = [], []
        connection = connect(
            address, token, self.reactor, lambda c, m: arrived.extend(m), lambda c, r: reasons.append(r), self.tls
        )
        connection.info = (arrived, reasons)
        return connection

    def to_node(self, target="agent"):
        return through(self.head.gateway.address, f"tcp://{self.node.gateway.address}/{target}")

    def to_client(self, target="agent"):
        return f"tcp://{self.place}/{target}"

    def until(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            refused = [gate.refused[-3:] for gate in (self.head, self.node, self.client)]
            assert time.monotonic() < deadline, f"it never came; refused: {refused}"
            self.reactor.poll(0.01)

    def beside(self, function):
        results = []
        thread = threading.Thread(target=lambda: results.append(function()))
        thread.start()
        self.until(lambda: not thread.is_alive())
        return results[0]

    def close(self):
        self.relay.close()
        for gate in (self.head, self.node, self.client):
            gate.gateway.close()
        self.reactor.close()


@pytest.fixture(params=["plain", "tls"])
def world(request, tmp_path):
    tls = None
    if request.param == "tls":
        certificates.create(tmp_path / "tls")
        tls = TlsFiles.of_directory(str(tmp_path / "tls"))
    one = World(tmp_path, tls)
    yield one
    pid = one.relay.pid
    one.close()
    assert not is_alive(pid), "its process ends with the relay"


def test_a_client_reaches_nodes_by_way_of_the_relay(world):
    connection = world.connect(world.to_node())
    connection.send((1, "hello"))
    connection.flush()
    world.until(lambda: (1, "hello") in world.node.arrived)
    (there,) = world.node.connections
    there.send((2, "yes?"))
    there.flush()
    world.until(lambda: (2, "yes?") in connection.info[0])
    assert world.head.arrived == [], "the head's node has nothing to do with it"
    connection.close()


def test_the_heads_own_node_is_reached_the_same_way(world):
    own = world.head.gateway.address
    connection = world.connect(through(own, f"tcp://{own}/agent"))
    connection.send((1, "hello"))
    connection.flush()
    world.until(lambda: (1, "hello") in world.head.arrived)
    connection.close()


def test_a_client_that_nobody_can_dial_is_reached(world):
    assert world.place == f"{world.head.gateway.address}~{CLIENT.hex()}"
    connection = world.connect(world.to_client())
    connection.send((1, "hello"))
    connection.flush()
    world.until(lambda: (1, "hello") in world.client.arrived)
    (there,) = world.client.connections
    there.send((2, "yes?"))
    there.flush()
    world.until(lambda: (2, "yes?") in connection.info[0])
    connection.close()


@pytest.mark.parametrize("whom", ["to_node", "to_client"])
def test_much_goes_both_ways(world, whom):
    address = getattr(world, whom)("transfer")
    gate = world.node if whom == "to_node" else world.client
    near = world.beside(lambda: open_socket(address, TOKEN, SECONDS, world.tls))
    world.until(lambda: gate.served)
    (far,) = gate.served
    data = os.urandom(5_000_000)
    for one, other in ((near, far), (far, near)):
        sender = threading.Thread(target=one.sendall, args=(data,))
        sender.start()
        received = bytearray()
        while len(received) < len(data):
            received += other.recv(1 << 16)
        assert received == data
        sender.join()
    near.close()
    assert far.recv(1) == b"", "an end in good order arrives as one"
    far.close()


@pytest.mark.parametrize("whom", ["to_node", "to_client"])
def test_a_connection_goes_on_after_the_relays_process_has_died(world, whom, monkeypatch):
    monkeypatch.setattr(tcp_connection, "RELAYED_ENDED_SECONDS", SECONDS)  # another one may take long to start
    monkeypatch.setattr(tcp_connection, "RELAYED_RESUME_SECONDS", SECONDS)
    connection = world.connect(getattr(world, whom)())
    arrived = world.node.arrived if whom == "to_node" else world.client.arrived
    for number in range(3):
        connection.send((1, number))
        connection.flush()
        world.until(lambda number=number: (1, number) in arrived)
        old = world.relay.pid
        os.kill(old, signal.SIGKILL)
        world.until(lambda old=old: world.relay.pid not in (0, old))
    connection.send((1, "last"))
    connection.flush()
    world.until(lambda: (1, "last") in arrived)
    assert [word for _, word in arrived] == [0, 1, 2, "last"]
    connection.close()


def test_a_process_that_is_stopped_takes_its_connections_later(world):
    os.kill(world.relay.pid, signal.SIGSTOP)
    connections = [world.connect(world.to_node()) for _ in range(40)]
    for number, connection in enumerate(connections):
        connection.send((1, number))
        connection.flush()
    for _ in range(50):
        world.reactor.poll(0.01)
    assert world.node.arrived == []
    os.kill(world.relay.pid, signal.SIGCONT)
    world.until(lambda: len(world.node.arrived) == len(connections))
    for connection in connections:
        connection.close()


def test_a_node_that_is_gone_is_said_to_be_so(world):
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    world.relay.member(place, True)
    address = through(world.head.gateway.address, f"tcp://{place}/agent")
    connection = world.connect(address)
    world.until(lambda: connection.closed)
    assert connection.info[1] == [f"no connection to {address}: the relay can't reach it: Connection refused"]


def test_it_leads_to_nodes_of_the_cluster_alone(world):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.setblocking(False)
        place = f"127.0.0.1:{stranger.getsockname()[1]}"
        address = through(world.head.gateway.address, f"tcp://{place}/agent")
        connection = world.connect(address)
        world.until(lambda: connection.closed)
        assert connection.info[1] == [f"no connection to {address}: the relay can't reach it"]
        assert world.head.refused == [f"a peer asked for the gateway '{place}', which is that of no node"]
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_a_wrong_token_is_not_relayed(world):
    connection = world.connect(world.to_node(), b"u" * 32)
    world.until(lambda: connection.closed)
    assert "it has another session token" in connection.info[1][0]
    assert world.head.refused == ["a peer that has another session token asked to be relayed"]
    assert world.node.refused == [], "it came no further"


def test_a_recorded_request_proves_nothing(world):
    """Who plays a request again comes as far as the node, which wants a proof of its own."""
    address = parse_tcp(world.to_node())
    sock = socket.create_connection((address.host, address.port), SECONDS)
    sock.sendall(opening(address, world.tls is not None, TOKEN) + b"\0" * 100)
    world.until(lambda: world.node.refused)
    assert world.node.arrived == []
    sock.close()


def test_a_made_up_ticket_is_refused(world):
    host, port = world.head.gateway.address.split(":")
    sock = socket.create_connection((host, int(port)), SECONDS)
    sock.sendall(calling_back(b"x" * 32))
    world.until(lambda: world.head.refused)
    assert world.head.refused == ["a peer dialled back with a ticket that is not good, or not any more"]
    sock.close()


def test_a_gateway_that_has_no_relay_says_so(world):
    address = through(world.node.gateway.address, f"tcp://{world.head.gateway.address}/agent")
    connection = world.connect(address)
    world.until(lambda: connection.closed)
    assert "nobody of that name is there" in connection.info[1][0]
    assert world.node.refused == ["a peer asked to be relayed, which the node beside the head does alone"]


def test_a_link_to_a_port_without_a_relay_is_refused(world):
    link = RelayLink(
        world.node.gateway.address,
        TOKEN,
        world.reactor,
        NodeId(b"\x02" * 8),
        None if world.tls is None else world.tls.files,
    )
    with pytest.raises(SessionEndedError, match="does not serve this program: .* nobody of that name is there"):
        link.join(SECONDS)


def test_a_client_whose_link_is_cut_is_reached_again(world):
    first = world.connect(world.to_client())
    first.send((1, "first"))
    first.flush()
    world.until(lambda: world.client.arrived)
    world.link._connection.close("cut")
    second = world.connect(world.to_client())
    second.send((1, "second"))
    second.flush()
    world.until(lambda: (1, "second") in world.client.arrived)
    for connection in (first, second):
        connection.close()


def test_the_relay_says_to_others_than_remote_drivers_that_they_are_none(world):
    connection = world.connect(f"tcp://{world.head.gateway.address}/relay")
    for message in ((1, 5), (1, "not an id"), (7,), (1,)):
        connection = world.connect(f"tcp://{world.head.gateway.address}/relay")
        connection.send(message)
        connection.flush()
        world.until(lambda connection=connection: connection.closed)
