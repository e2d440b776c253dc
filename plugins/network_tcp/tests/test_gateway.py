"""One port for a whole node: who is meant gets the socket, who is noise gets nothing, and nothing grows."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
import time

import pytest
from kernel_network_tcp import gateway
from kernel_network_tcp.transport import host_connector, tcp_dialler
from kernel_network_tcp.transport.connect import connect, open_socket
from kernel_network_tcp.transport.preamble import preamble

from kernel.testing.leaks import count_descriptors
from kernel_processes.transport.accepted_connections import HANDSHAKE_SECONDS
from kernel_processes.transport.acceptor import PAUSE_SECONDS
from kernel_processes.transport.addresses import TcpAddress
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.socket_receiver import SocketReceiver, send_socket
from kernel_spec.errors import ProtocolError
from plugins.network_tcp.tests.gateway_node import PROCESS, SECONDS, TOKEN, GatewayNode


@pytest.fixture
def node(tmp_path):
    one = GatewayNode(tmp_path)
    yield one
    one.close()


def received(sock, flags=0):
    """Return what has arrived, at most 1000 bytes, or b"" at once."""
    sock.setblocking(False)
    try:
        return sock.recv(1000, flags)
    except BlockingIOError:
        return b""


def send_and_await(node, connection, incoming, message=(1, "hello")):
    connection.send(message)
    connection.flush()
    node.until(lambda: message in incoming)


# -- who is meant ------------------------------------------------------------------------------------------------------


def test_what_is_sent_before_the_connection_stands_is_heard_after(node):
    connection = node.connect("agent")
    send_and_await(node, connection, node.incoming)
    assert node.refused == []
    connection.close()
    node.until(lambda: node.closed)
    assert node.closed == ["the peer closed the connection"]


def test_a_process_gets_its_socket_passed(node):
    node.start_process()
    connection = node.connect(PROCESS)
    send_and_await(node, connection, node.process_incoming)
    assert node.incoming == []
    node.gateway.close()  # nothing goes through it any more
    send_and_await(node, connection, node.process_incoming, (2, "still here"))
    connection.close()
    node.until(lambda: node.process_closed)


def test_large_messages_go_both_ways(node):
    answers = []
    node.gateway.serve_connections(
        "echo", lambda c, m: (answers.append(c), c.outbox.extend(m), c.flush()), lambda c, r: None
    )
    connection = node.connect("echo")
    big = (7, os.urandom(3 << 20))
    send_and_await(node, connection, connection.info[0], big)
    connection.close()


def test_a_socket_is_opened_proved_and_handed_over(node):
    mine = node.beside(lambda: open_socket(node.address("transfer"), TOKEN, SECONDS))
    node.until(lambda: node.served)
    theirs = node.served[0]
    assert theirs.getblocking() and theirs.getpeername() == mine.getsockname()
    theirs.sendall(b"bulk")
    assert mine.recv(10) == b"bulk"
    mine.close()
    assert theirs.recv(10) == b""
    theirs.close()


@pytest.mark.parametrize("target", ["nobody", "f" * 16, "f" * 32])
def test_who_is_not_here_is_told_so_and_nothing_else(node, target):
    sock = node.raw()
    sock.sendall(preamble(target, False))
    node.until(lambda: node.refused)
    assert sock.recv(100) == 2 * b"KRN!\3" and sock.recv(100) == b""
    assert target in node.refused[0] and "not here" in node.refused[0]
    sock.close()


@pytest.mark.parametrize("is_on_this_node", [False, True])
def test_a_head_that_is_away_is_no_news_on_its_own_node(tmp_path, is_on_this_node):
    node = GatewayNode(tmp_path, splice_to=str(tmp_path / "control") if is_on_this_node else "")
    for _ in range(3):
        connection = node.connect("head")
        node.until(lambda one=connection: one.closed)
        assert "nobody of that name is there" in connection.info[1][0]
    assert node.refused == ([] if is_on_this_node else ["a peer asked for the head, which is not here"] * 3)
    node.close()


def test_a_process_that_is_gone_is_not_here(node):
    node.start_process()
    connection = node.connect(PROCESS)
    send_and_await(node, connection, node.process_incoming)
    node.listener.close()
    node.listener = None
    late = node.connect(PROCESS)
    late.send((3, "unsent"))
    node.until(lambda: late.closed)
    assert late.outbox == [(3, "unsent")]
    assert late.info[1] == [
        f"no connection to {node.address(PROCESS)}: nobody of that name is there; a process that was has ended"
    ]
    connection.close()


def test_a_path_in_a_target_leads_nowhere(node):
    sock = node.raw()
    sock.sendall(preamble("../../etc/passwd", False))
    node.until(lambda: node.refused)
    assert "not here" in node.refused[0]
    sock.close()


def test_a_process_that_takes_nothing_for_a_while_gets_its_sockets_later(node):
    waiting = SocketReceiver(
        os.path.join(node.directory, PROCESS + ".in"), Reactor(), lambda sock: None, node.refused.append
    )
    connections = [node.connect(PROCESS) for _ in range(50)]
    node.until(lambda: node.gateway._passing > 0)  # the queue of an inlet is short
    taken = []
    waiting._adopt = taken.append
    node.until(lambda: (waiting._reactor.poll(0), len(taken) == 50)[1])
    assert node.refused == []
    for connection in connections:
        connection.close()
    for sock in taken:
        sock.close()
    waiting.close()


def test_a_process_that_never_takes_its_socket_is_given_up(node, monkeypatch):
    monkeypatch.setattr(gateway, "PASSING_SECONDS", 0.0)
    waiting = SocketReceiver(
        os.path.join(node.directory, PROCESS + ".in"), Reactor(), lambda sock: None, node.refused.append
    )
    connections = [node.connect(PROCESS) for _ in range(50)]
    node.until(lambda: any(f"can't be passed to process {PROCESS}" in reason for reason in node.refused))
    for connection in connections:
        connection.close()
    waiting.close()


def test_an_inlet_takes_sockets_alone(tmp_path):
    loop, taken, refused = Reactor(), [], []
    receiver = SocketReceiver(str(tmp_path / "in"), loop, taken.append, refused.append)
    assert os.stat(receiver.path).st_mode & 0o777 == 0o600
    courier = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    courier.sendto(b"noise", receiver.path)
    courier.sendto(os.urandom(5000), receiver.path)
    before = count_descriptors()
    left, right = socket.socketpair()
    socket_and_noise = socket.SCM_RIGHTS, left.fileno().to_bytes(4, "little")
    courier.sendmsg([b"noise"], [(socket.SOL_SOCKET, *socket_and_noise)], 0, receiver.path)
    while loop.poll(0):
        pass
    assert taken == [] and count_descriptors() == before + 2
    send_socket(courier, left, receiver.path)
    while loop.poll(0):
        pass
    assert len(taken) == 1 and not taken[0].get_inheritable()
    taken[0].sendall(b"x")
    assert right.recv(1) == b"x"
    for sock in (left, right, courier, *taken):
        sock.close()
    receiver.close()
    loop.close()


# -- who can't be reached ----------------------------------------------------------------------------------------------


def test_nobody_listens(node):
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    reasons = []
    address = f"tcp://127.0.0.1:{free.getsockname()[1]}/agent"
    connection = connect(address, TOKEN, node.reactor, lambda c, m: None, lambda c, r: reasons.append(r))
    connection.send((1, "unsent"))
    connection.flush()
    assert reasons == []  # told by the loop, never by `connect`
    node.until(lambda: reasons)
    assert reasons == [f"no connection to {address}: it can't be reached: {os.strerror(errno.ECONNREFUSED)}"]
    assert connection.closed and connection.outbox == [(1, "unsent")]
    free.close()


def silent_place():
    """Return a socket that listens, whose queue is full: who connects to it waits."""
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(0)
    fillers = []
    for _ in range(8):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(silent.getsockname())
        fillers.append(filler)
    return silent, fillers


def test_a_machine_that_does_not_answer_is_given_up_in_time(node):
    silent, fillers = silent_place()
    reasons = []
    address = f"tcp://127.0.0.1:{silent.getsockname()[1]}/agent"
    connection = connect(address, TOKEN, node.reactor, lambda c, m: None, lambda c, r: reasons.append(r), seconds=3.0)
    node.reactor.poll(0)
    node.clock.added = 3.1
    node.until(lambda: reasons)
    assert reasons == [f"no connection to {address}: there was no answer within 3 s"]
    assert connection.closed
    for sock in (silent, *fillers):
        sock.close()


def test_a_target_that_never_proves_the_token_is_given_up(node):
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(5)
    reasons = []
    address = f"tcp://127.0.0.1:{silent.getsockname()[1]}/agent"
    connect(address, TOKEN, node.reactor, lambda c, m: None, lambda c, r: reasons.append(r))
    accepted, _ = silent.accept()
    for _ in range(5):
        node.reactor.poll(0.01)
    node.clock.added = tcp_dialler.PROOF_SECONDS + 1
    node.until(lambda: reasons)
    assert reasons == [f"no connection to {address}: the target did not prove the session token within 60 s"]
    accepted.close()
    silent.close()


def test_names_are_looked_up_beside_the_loop(node, monkeypatch):
    asked, waited = threading.Event(), []
    found = host_connector.look_up

    def slow(host, port):
        waited.append(asked.wait(SECONDS))
        return [(int(socket.AF_INET), ("127.0.0.1", 1)), *found("127.0.0.1", node.gateway.port)]

    monkeypatch.setattr(host_connector, "look_up", slow)
    connection = connect(
        str(TcpAddress("head.example", node.gateway.port, "agent")),
        TOKEN,
        node.reactor,
        lambda c, m: None,
        lambda c, r: node.refused.append(r),
    )
    node.reactor.poll(0)
    asked.set()
    send_and_await(node, connection, node.incoming)  # at the second place: nobody is at the first
    assert waited == [True], "the loop went on meanwhile"
    connection.close()


def test_a_name_that_nobody_knows(node, monkeypatch):
    def unknown(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(host_connector, "look_up", unknown)
    reasons = []
    connect("tcp://nowhere.invalid:1/agent", TOKEN, node.reactor, lambda c, m: None, lambda c, r: reasons.append(r))
    node.until(lambda: reasons)
    assert reasons == [
        "no connection to tcp://nowhere.invalid:1/agent: the name 'nowhere.invalid' can't be looked up: "
        "Name or service not known"
    ]


def test_a_connection_closed_before_it_stands_leaves_nothing(node):
    before = count_descriptors(), node.reactor.watched
    connection = node.connect("agent")
    connection.close("changed my mind")
    assert connection.info[1] == ["changed my mind"]
    node.until(lambda: node.refused)
    node.until(lambda: (count_descriptors(), node.reactor.watched) == before)


def test_opening_a_socket_to_nobody(node):
    error = node.beside(lambda: open_socket(node.address("nobody"), TOKEN, SECONDS))
    assert isinstance(error, ProtocolError) and "nobody of that name is there" in str(error)
    silent, fillers = silent_place()
    with pytest.raises(OSError):
        open_socket(f"tcp://127.0.0.1:{silent.getsockname()[1]}/agent", TOKEN, timeout=0.05)
    for sock in (silent, *fillers):
        sock.close()


# -- who is not one of ours --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["agent", "transfer", PROCESS])
def test_a_wrong_token_is_refused_on_both_sides(node, target):
    node.start_process()
    connection = node.connect(target, b"w" * 32)
    node.until(lambda: connection.closed and (node.refused or node.process_refused))
    assert node.refused + node.process_refused == ["the peer has a wrong session token"]
    assert connection.info[1] == [f"no connection to {node.address(target)}: it has another session token"]
    error = node.beside(lambda: open_socket(node.address(target), b"w" * 32, SECONDS))
    assert isinstance(error, ProtocolError) and "another session token" in str(error)
    assert node.incoming == node.served == node.process_incoming == []


def test_a_server_with_a_wrong_token_learns_nothing_and_is_left(node):
    impostor = socket.socket()
    impostor.bind(("127.0.0.1", 0))
    impostor.listen(1)
    reasons = []
    address = f"tcp://127.0.0.1:{impostor.getsockname()[1]}/agent"
    connection = connect(address, TOKEN, node.reactor, lambda c, m: None, lambda c, r: reasons.append(r))
    connection.send((1, "secret"))
    sock, _ = impostor.accept()
    handshake = Handshake(b"w" * 32, server=True)
    sock.sendall(handshake.start())
    sock.setblocking(False)
    node.until(lambda: len(received(sock, socket.MSG_PEEK)) == 37 + 56)
    sock.sendall(b"\0" * 32)
    node.until(lambda: reasons)
    assert reasons == [f"no connection to {address}: the server has a wrong session token"]
    sock.close()
    impostor.close()


def test_who_says_nothing_is_dropped_in_time(node):
    node.clock.stop()
    socks = [node.raw() for _ in range(3)]
    for _ in range(5):
        node.reactor.poll(0.01)
    socks[1].sendall(b"KR")  # slowly
    socks[2].sendall(preamble("agent", False))
    node.until(lambda: received(socks[2])[:8] == b"kernel\0\1")
    node.clock.added = HANDSHAKE_SECONDS + 0.1
    node.until(lambda: len(node.refused) == 2)
    assert set(node.refused) == {"a peer did not say in time whom it is for"}
    node.clock.added = 16
    node.until(lambda: len(node.refused) == 3)
    assert node.refused[2] == "the peer did not prove the session token in time"
    for sock in socks:
        sock.close()


def test_one_byte_at_a_time_is_not_enough(node):
    node.clock.stop()
    sock = node.raw()
    data = preamble("agent", False)
    for number in range(20):
        sock.sendall(data[number : number + 1])
        node.reactor.poll(0.001)
        node.clock.added += 0.2
    assert node.refused == []
    node.clock.added += 1.5
    node.until(lambda: node.refused)
    assert node.refused == ["a peer did not say in time whom it is for"]
    sock.close()


@pytest.mark.parametrize("first", [b"", b"KRN1\1" + b"agent".ljust(32, b"\0")])
def test_a_million_bytes_of_noise_are_refused_at_the_first(node, first):
    before = count_descriptors()
    sock = node.raw()
    sock.setblocking(False)
    noise = memoryview(first + os.urandom(1_000_000))
    while noise:
        node.reactor.poll(0)
        try:
            noise = noise[sock.send(noise) :]
        except BlockingIOError:
            continue
        except OSError:
            break
    node.until(lambda: node.refused)
    assert len(node.refused) == 1 and "does not speak this protocol" in node.refused[0]
    with pytest.raises(OSError):  # it was closed with most of that unread
        while True:
            sock.setblocking(True)
            assert sock.recv(1000) and node.incoming == []
    sock.close()
    assert count_descriptors() == before


def test_a_recorded_handshake_proves_nothing(node):
    recorded = []
    sock = node.raw()
    handshake = Handshake(TOKEN, server=False)
    sock.sendall(preamble("agent", False))
    node.until(lambda: len(received(sock, socket.MSG_PEEK)) == 24)
    recorded.append(handshake.feed(sock.recv(24)))
    sock.sendall(recorded[0])
    node.until(lambda: len(received(sock, socket.MSG_PEEK)) == 32)
    again = node.raw()
    again.sendall(preamble("agent", False))
    node.until(lambda: len(received(again, socket.MSG_PEEK)) == 24)
    again.sendall(recorded[0])
    node.until(lambda: node.refused)
    assert node.refused == ["the peer has a wrong session token"]
    sock.close()
    again.close()


def test_a_flood_keeps_nobody_out_and_nothing_grows(node):
    send_and_await(node, first := node.connect("agent"), node.incoming)
    gc.collect()
    before = count_descriptors(), node.reactor.watched
    for _ in range(3):
        flood = [node.raw() for _ in range(300)]
        half = [node.raw() for _ in range(300)]
        for sock in half:
            sock.sendall(preamble("agent", False))
        late = node.connect("agent")
        send_and_await(node, late, node.incoming, (2, "late"))
        node.incoming.remove((2, "late"))
        assert node.reactor.watched < before[1] + 2 * 256 + 10
        for sock in flood + half:
            sock.close()
        late.close()
        node.until(lambda: node.reactor.watched == before[1])
        assert count_descriptors() <= before[0]
    assert len(node.refused) < 200  # of more than a thousand
    assert any("too many connections at once" in reason for reason in node.refused)
    first.close()


def test_a_gateway_without_descriptors_rests_says_so_once_and_goes_on(node):
    real = node.gateway._acceptor._socket

    class Starved:
        attempts = 0

        def accept(self):
            self.attempts += 1
            raise OSError(errno.EMFILE, "Too many open files")

        def fileno(self):
            return real.fileno()

    starved = node.gateway._acceptor._socket = Starved()
    node.clock.stop()
    connection = node.connect("agent")
    for attempts in (1, 2, 3):
        node.until(lambda attempts=attempts: starved.attempts == attempts)
        for _ in range(5):
            node.reactor.poll(0)
        assert starved.attempts == attempts
        node.clock.added += PAUSE_SECONDS
    assert node.refused == ["connections can't be accepted, and wait: Too many open files"]
    node.gateway._acceptor._socket = real
    send_and_await(node, connection, node.incoming)
    connection.close()


def test_a_peer_that_wants_tls_is_told_that_there_is_none(node):
    sock = node.raw()
    sock.sendall(preamble("agent", True))
    node.until(lambda: node.refused)
    assert node.refused == ["a peer speaks TLS, which is off here: switch it on here too, or off there"]
    assert sock.recv(100) == 2 * b"KRN!\2"
    sock.close()


# -- what is somebody else's -------------------------------------------------------------------------------------------


@pytest.fixture
def control(tmp_path):
    """A node that splices, and the listening socket to which it does."""
    path = str(tmp_path / "control")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(10)
    node = GatewayNode(tmp_path, splice_to=path)
    yield node, listening
    node.close()
    listening.close()


def spliced(node, listening, first=b"PRI * HTTP/2.0\r\n"):
    outer = node.raw()
    outer.sendall(first)
    node.until(lambda: len(node.gateway._splices) > 0)
    inner, _ = listening.accept()
    inner.settimeout(SECONDS)
    return outer, inner


@pytest.mark.parametrize("first", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"x" * 100, b"KERN", b"KRX"])
def test_other_protocols_are_spliced_with_their_first_bytes(control, first):
    node, listening = control
    outer, inner = spliced(node, listening, first)
    incoming = bytearray()
    node.until(lambda: (incoming.extend(received(inner)), len(incoming) >= len(first))[1])
    assert incoming == first
    outer.close()
    inner.close()
    node.until(lambda: not node.gateway._splices)
    assert node.refused == []


def test_much_goes_both_ways_and_each_side_ends_when_it_likes(control):
    node, listening = control
    outer, inner = spliced(node, listening, b"P")
    upwards, downwards = os.urandom(4 << 20), os.urandom(3 << 20)

    def speak(sock, data):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    def read(sock):
        sock.settimeout(SECONDS)
        parts = []
        while part := sock.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)

    speaker = threading.Thread(target=speak, args=(outer, upwards))
    speaker.start()
    assert node.beside(lambda: read(inner)) == b"P" + upwards  # which has ended, and is still spoken to
    speaker.join()
    speaker = threading.Thread(target=speak, args=(inner, downwards))
    speaker.start()
    assert node.beside(lambda: read(outer)) == downwards
    speaker.join()
    node.until(lambda: not node.gateway._splices)
    outer.close()
    inner.close()


def test_a_reader_that_is_slow_holds_the_writer_up_and_fills_no_memory(control):
    node, listening = control
    outer, inner = spliced(node, listening, b"P")
    outer.setblocking(False)
    (splice,) = node.gateway._splices
    sent, quiet = 0, 0
    while quiet < 50:
        try:
            sent += outer.send(b"x" * 65536)
            quiet = 0
        except BlockingIOError:
            quiet += 1
        node.reactor.poll(0)
    assert len(splice._right.to_write) <= 256 * 1024
    assert node.reactor.poll(0) is False  # it does not spin
    outer.close()
    inner.close()
    node.until(lambda: not node.gateway._splices)


def test_a_side_that_breaks_ends_the_other(control):
    node, listening = control
    outer, inner = spliced(node, listening, b"P")
    outer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    outer.close()  # with a reset
    node.until(lambda: not node.gateway._splices)
    assert inner.recv(10) in (b"P", b"")
    inner.close()


def test_a_control_plane_that_is_not_there(tmp_path):
    node = GatewayNode(tmp_path, splice_to=str(tmp_path / "nobody"))
    sock = node.raw()
    sock.sendall(b"PRI * HTTP/2.0")
    node.until(lambda: node.refused)
    assert node.refused == ["the control plane does not answer: No such file or directory"]
    sock.close()
    node.close()


def test_a_port_that_is_taken_is_an_error(node, tmp_path):
    with pytest.raises(OSError):
        gateway.Gateway("127.0.0.1", node.gateway.port, TOKEN, node.reactor, str(tmp_path), lambda reason: None)


def test_ipv6(tmp_path):
    loop, incoming = Reactor(), []
    try:
        six = gateway.Gateway("::1", 0, TOKEN, loop, str(tmp_path), lambda reason: None)
    except OSError:
        loop.close()
        return  # the machine has it switched off
    six.serve_connections("agent", lambda c, m: incoming.extend(m), lambda c, r: None)
    assert six.address == f"[::1]:{six.port}"
    connection = connect(f"tcp://{six.address}/agent", TOKEN, loop, lambda c, m: None, lambda c, r: None)
    connection.send((1, "six"))
    deadline = time.monotonic() + SECONDS
    while not incoming and time.monotonic() < deadline:
        loop.poll(0.01)
    assert incoming == [(1, "six")]
    connection.close()
    six.close()
    loop.close()
