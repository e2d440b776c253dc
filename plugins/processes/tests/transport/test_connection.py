"""Frames over sockets: whole however they are cut, in order, never blocking; and what is refused."""

from __future__ import annotations

import errno
import marshal
import os
import socket
import struct
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_processes.transport.accepted_connections import HANDSHAKE_SECONDS
from kernel_processes.transport.acceptor import PAUSE_SECONDS
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.connection import (
    ATTACH_OPERATION,
    MAXIMUM_FRAME,
    Connection,
    may_be_handled,
    pack_batch,
)
from kernel_processes.transport.poller import READ, WRITE, SelectorPoller, make_poller
from kernel_processes.transport.reactor import Reactor
from kernel_processes.transport.unix_listener import UnixListener

TOKEN = b"t" * 32

ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20), st.binary(max_size=300)
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner)), max_leaves=5
)
MESSAGES = st.lists(st.tuples(st.integers(1, 70), VALUES), max_size=20)


class End:
    """One end of a connection, and what it has heard."""

    def __init__(self, sock, reactor, handshake=None):
        self.received = []
        self.reasons = []
        self.connection = Connection(
            sock,
            reactor,
            handshake,
            lambda connection, messages: self.received.extend(messages),
            lambda connection, reason: self.reasons.append(reason),
        )


def frame(data):
    return struct.pack("<I", len(data)) + data


@pytest.fixture
def reactor():
    loop = Reactor()
    yield loop
    loop.close()


@pytest.fixture
def raw(reactor):
    """A plain socket, and the connection at its other end."""
    ours, theirs = socket.socketpair()
    end = End(theirs, reactor)
    yield ours, end
    ours.close()
    end.connection.close()


def settle(reactor, *ends, until=None):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for end in ends:
            end.connection.flush()
        busy = reactor.poll(0.001 if until is not None else 0)
        if until is not None and until():
            return
        if not busy and until is None:
            return
    assert until is None, "it never came"


@settings(deadline=None, max_examples=60)
@given(batches=st.lists(MESSAGES, max_size=5), cuts=st.lists(st.integers(1, 200), min_size=1, max_size=50))
def test_messages_come_whole_and_in_order_however_they_are_cut(batches, cuts):
    loop = Reactor()
    ours, theirs = socket.socketpair()
    end = End(theirs, loop)
    try:
        data = b"".join(frame(marshal.dumps(batch)) for batch in batches)
        position = 0
        for number in range(len(data)):
            if position >= len(data):
                break
            cut = cuts[number % len(cuts)]
            ours.sendall(data[position : position + cut])
            position += cut
            loop.poll(0)
        settle(loop)
        assert end.received == [message for batch in batches for message in batch]
        assert end.reasons == []
    finally:
        ours.close()
        end.connection.close()
        loop.close()


@settings(deadline=None, max_examples=40)
@given(messages=MESSAGES)
def test_what_one_end_sends_the_other_hears(messages):
    loop = Reactor()
    left, right = socket.socketpair()
    sender, receiver = End(left, loop), End(right, loop)
    try:
        for message in messages:
            sender.connection.send(message)
        settle(loop, sender)
        assert receiver.received == messages
    finally:
        sender.connection.close()
        receiver.connection.close()
        loop.close()


def test_more_than_a_socket_takes_is_sent_piece_by_piece(reactor):
    left, right = socket.socketpair()
    sender, receiver = End(left, reactor), End(right, reactor)
    big = os.urandom(5 << 20)
    for number in range(3):
        sender.connection.send((number, big))
    sender.connection.flush()
    assert receiver.received == []  # nothing blocked, nothing was read yet
    settle(reactor, sender, until=lambda: len(receiver.received) == 3)
    assert [message[0] for message in receiver.received] == [0, 1, 2]
    assert all(message[1] == big for message in receiver.received)
    sender.connection.close()
    receiver.connection.close()


def test_what_could_not_be_sent_is_still_there_when_the_end_is_told(reactor):
    left, right = socket.socketpair()
    sender = End(left, reactor)
    sender.connection.send(("sent",))
    sender.connection.flush()
    right.close()
    for number in range(600):
        sender.connection.send((number,))
    sender.connection.flush()
    settle(reactor, sender, until=lambda: sender.connection.closed)
    sender.connection.send(("after",))
    sender.connection.flush()
    assert sender.connection.outbox == [*((number,) for number in range(600)), ("after",)]
    assert len(sender.reasons) == 1


def test_threads_may_send_at_once(reactor):
    left, right = socket.socketpair()
    sender, receiver = End(left, reactor), End(right, reactor)

    def work(name):
        for number in range(500):
            sender.connection.send((name, number))
            sender.connection.flush()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    settle(reactor, sender, until=lambda: len(receiver.received) == 2000)
    for thread in threads:
        thread.join()
    for name in range(4):
        assert [number for who, number in receiver.received if who == name] == list(range(500))
    sender.connection.close()
    receiver.connection.close()


def frames(data):
    """Return what each frame holds."""
    found = []
    while data:
        (length,) = struct.unpack_from("<I", data)
        found.append(marshal.loads(data[4 : 4 + length]))
        data = data[4 + length :]
    return found


def test_many_messages_are_several_frames_in_order(reactor, raw):
    ours, end = raw
    for number in range(1030):
        end.connection.send((number,))
    assert end.connection.info is None and end.connection.authenticated
    end.connection.flush()
    assert end.connection.outbox == []
    found = frames(ours.recv(1 << 20))
    assert [len(each) for each in found] == [512, 512, 6]
    assert [message for each in found for message in each] == [(number,) for number in range(1030)]


def test_a_batch_is_taken_out_of_what_waits():
    outbox = [(number,) for number in range(600)]
    assert frames(pack_batch(outbox)) == [[(number,) for number in range(512)]]
    assert outbox == [(number,) for number in range(512, 600)]
    assert frames(pack_batch(outbox)) == [[(number,) for number in range(512, 600)]] and outbox == []


def test_nothing_is_sent_before_the_peer_has_proved_itself(reactor):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    end = End(theirs, reactor, Handshake(TOKEN, server=True))
    end.connection.send((1, "secret"))
    end.connection.flush()
    end.connection.write_out(0.0)
    assert end.connection.outbox == [(1, "secret")] and not end.connection.authenticated
    assert b"secret" not in ours.recv(1 << 16)
    ours.close()
    end.connection.close()


def test_what_waits_is_written_out_while_the_peer_reads_slowly(reactor, raw):
    ours, end = raw
    big = b"x" * 3_000_000
    end.connection.send((1, big))
    received = bytearray()

    def read():
        while len(received) < len(big):
            received.extend(ours.recv(1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    end.connection.write_out(120.0)
    thread.join(120)
    assert frames(bytes(received)) == [[(1, big)]]


def test_a_peer_that_does_not_read_is_waited_for_so_long_and_no_longer(reactor, raw):
    _, end = raw
    end.connection.send((1, b"x" * 3_000_000))
    begun = time.monotonic()
    end.connection.write_out(0.2)
    assert 0.2 <= time.monotonic() - begun < 60
    begun = time.monotonic()
    end.connection.write_out(0.0)
    assert not end.connection.closed and end.reasons == []


def test_a_peer_that_is_known_to_be_dead_is_given_up(reactor, raw):
    ours, end = raw
    end.connection.send((1, "x"))
    end.connection.give_up("its node is gone")
    end.connection.give_up("its node is gone, once more")
    assert end.connection.closed and end.reasons == ["its node is gone"]
    end.connection.flush()
    assert end.connection.outbox == [(1, "x")] and ours.recv(10) == b""


def test_a_peer_that_left_with_something_unread_broke_the_connection(reactor, raw):
    ours, end = raw
    end.connection.send((1, "x"))
    end.connection.flush()
    ours.close()
    settle(reactor)
    assert end.reasons == ["the connection broke: Connection reset by peer"]


def test_a_child_that_lets_go_of_a_connection_tells_nobody(reactor, raw):
    ours, end = raw
    end.connection.abandon()
    assert end.connection.closed and end.reasons == []
    end.connection.close()
    assert end.reasons == [] and ours.recv(10) == b""


def test_the_end_is_told_once(reactor, raw):
    ours, end = raw
    ours.close()
    settle(reactor)
    end.connection.close()
    assert end.reasons == ["the peer closed the connection"]


def test_what_came_before_the_end_is_heard(reactor, raw):
    ours, end = raw
    ours.sendall(frame(marshal.dumps([(1, "last words")])))
    ours.close()
    settle(reactor)
    assert end.received == [(1, "last words")]
    assert end.connection.closed


def test_half_a_frame_is_never_heard(reactor, raw):
    ours, end = raw
    ours.sendall(frame(marshal.dumps([(1, "whole")])) + frame(marshal.dumps([(2, "cut")]))[:-1])
    ours.close()
    settle(reactor)
    assert end.received == [(1, "whole")]


@pytest.mark.parametrize("length", [MAXIMUM_FRAME + 1, 0xFFFFFFFF])
def test_an_oversized_frame_is_refused_by_its_length_alone(reactor, raw, length):
    ours, end = raw
    ours.sendall(struct.pack("<I", length) + b"x")
    settle(reactor)
    assert end.connection.closed
    assert f"a frame of {length} bytes is longer than" in end.reasons[0]


def test_an_oversized_length_that_arrives_in_pieces_is_refused(reactor, raw):
    ours, end = raw
    for byte in struct.pack("<I", 0xFFFFFFFF):
        ours.sendall(bytes([byte]))
        settle(reactor)
    assert end.connection.closed


@settings(deadline=None, max_examples=100)
@given(noise=st.binary(min_size=1, max_size=300))
def test_noise_in_a_frame_is_refused_or_harmless(noise):
    loop = Reactor()
    ours, theirs = socket.socketpair()
    end = End(theirs, loop)
    try:
        ours.sendall(frame(noise))
        settle(loop)
        if end.connection.closed:
            assert end.received == []
            assert "frame" in end.reasons[0]
        else:
            assert end.received == marshal.loads(noise)
    finally:
        ours.close()
        end.connection.close()
        loop.close()


@pytest.mark.parametrize("value", [5, {"a": 1}, "text", (1, 2), None])
def test_a_frame_must_be_a_list(reactor, raw, value):
    ours, end = raw
    ours.sendall(frame(marshal.dumps(value)))
    settle(reactor)
    assert end.connection.closed
    assert end.received == []


def test_an_empty_frame_asks_for_descriptors(reactor, raw):
    ours, end = raw
    ours.sendall(b"\0\0\0\0")
    settle(reactor)
    assert end.received == [(ATTACH_OPERATION,)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ((1, "x"), True),
        ((1,), True),
        ((2,), False),
        ((), False),
        ([1], False),
        (5, False),
        (("1",), False),
        ((True,), False),
    ],
)
def test_only_known_operations_may_be_handled(message, expected):
    assert may_be_handled(message, {1}) is expected


# -- listening ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def server(tmp_path):
    """A listener with a clock that stands still, and what it heard and refused."""

    class Server:
        def __init__(self):
            self.clock = Clock()
            self.reactor = Reactor(self.clock)
            self.path = str(tmp_path / "socket")
            self.received, self.closed, self.refused = [], [], []
            self.listener = UnixListener(
                self.path,
                TOKEN,
                self.reactor,
                lambda connection, messages: self.received.extend(messages),
                lambda connection, reason: self.closed.append(reason),
                self.refused.append,
            )

        def connect(self, token=TOKEN):
            received, reasons = [], []
            connection = Connector(token, self.reactor).connect(
                self.path,
                lambda connection, messages: received.extend(messages),
                lambda connection, reason: reasons.append(reason),
            )
            connection.info = (received, reasons)
            return connection

        def raw(self):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.path)
            return sock

        def settle(self):
            for _ in range(50):
                self.reactor.poll(0)

    one = Server()
    yield one
    if os.path.exists(one.path):
        one.listener.close()
    one.reactor.close()


def test_a_peer_with_the_token_is_heard(server):
    connection = server.connect()
    connection.send((1, "hello"))
    server.settle()
    connection.flush()
    server.settle()
    assert connection.authenticated
    assert server.received == [(1, "hello")]
    connection.close()
    server.settle()
    assert server.closed == ["the peer closed the connection"]
    assert server.refused == []


def test_a_peer_without_the_token_is_refused_before_anything_is_read(server):
    connection = server.connect(b"wrong" * 7)
    connection.send((1, "hello"))
    server.settle()
    assert connection.closed
    assert server.received == []
    assert server.refused == ["the peer has a wrong session token"]


def test_noise_is_refused_and_others_are_served(server):
    sock = server.raw()
    sock.sendall(os.urandom(500))
    server.settle()
    assert server.refused
    connection = server.connect()
    server.settle()
    connection.send((1, "still here"))
    connection.flush()
    server.settle()
    assert server.received == [(1, "still here")]
    sock.close()
    connection.close()


def test_who_says_nothing_is_dropped_in_time(server):
    sock = server.raw()
    server.settle()
    server.clock.now = HANDSHAKE_SECONDS - 0.1
    server.settle()
    assert server.refused == []
    server.clock.now = HANDSHAKE_SECONDS + 0.1
    server.settle()
    assert server.refused == ["the peer did not prove the session token in time"]
    sock.recv(100)
    assert sock.recv(100) == b""
    sock.close()


def test_a_proof_that_is_read_late_counts(server):
    theirs = Reactor(server.clock)
    reasons = []
    connection = Connector(TOKEN, theirs).connect(
        server.path, lambda c, m: None, lambda c, reason: reasons.append(reason)
    )
    connection.send((1, "hello"))
    server.settle()
    theirs.poll(0)  # it proves the token at once
    server.clock.now = HANDSHAKE_SECONDS + 0.1  # while the server is busy
    settle(server.reactor, until=lambda: not theirs.poll(0) and bool(server.received or server.refused))
    assert (server.received, server.refused, reasons) == ([(1, "hello")], [], [])
    connection.close()
    theirs.close()


def test_who_proved_the_token_may_be_silent_and_is_no_stranger(server):
    silent = [server.connect() for _ in range(300)]
    server.settle()
    server.clock.now = HANDSHAKE_SECONDS + 0.1
    server.settle()
    assert server.refused == []
    assert all(connection.authenticated and not connection.closed for connection in silent)
    server.listener.close()
    server.settle()
    assert all(connection.closed for connection in silent)


def test_a_listener_without_descriptors_rests_says_so_once_and_goes_on(server, monkeypatch):
    real = server.listener._acceptor._socket

    class Starved:
        attempts = 0

        def accept(self):
            self.attempts += 1
            raise OSError(errno.EMFILE, "Too many open files")

        def fileno(self):
            return real.fileno()

    starved = server.listener._acceptor._socket = Starved()
    connection = server.connect()
    for attempts in (1, 2, 3):
        server.settle()
        assert starved.attempts == attempts
        server.clock.now += PAUSE_SECONDS
    assert server.refused == ["connections can't be accepted, and wait: Too many open files"]
    server.listener._acceptor._socket = real
    server.settle()
    assert connection.authenticated
    connection.close()


def test_strangers_can_not_use_up_all_descriptors(server):
    socks = [server.raw() for _ in range(300)]
    for _ in range(10):
        server.settle()
    assert any("too many connections at once" in reason for reason in server.refused)
    for sock in socks:
        sock.close()
    server.settle()
    connection = server.connect()
    server.settle()
    assert connection.authenticated
    connection.close()


def test_the_socket_is_private_and_goes_with_the_listener(server):
    assert os.stat(server.path).st_mode & 0o777 == 0o600
    server.listener.close()
    assert not os.path.exists(server.path)


def test_a_path_that_is_too_long_is_named(tmp_path, reactor):
    path = str(tmp_path / ("x" * 200))
    with pytest.raises(OSError, match="AF_UNIX path too long") as raised:
        UnixListener(path, TOKEN, reactor, lambda *_: None, lambda *_: None, lambda *_: None)
    assert (raised.value.errno, raised.value.filename) == (errno.ENAMETOOLONG, path)


def test_nobody_there(tmp_path, reactor):
    with pytest.raises(OSError):
        Connector(TOKEN, reactor).connect(str(tmp_path / "nobody"), lambda c, m: None, lambda c, r: None)


def test_without_a_network_nothing_leads_to_other_machines(reactor):
    with pytest.raises(OSError, match="this session has one machine") as caught:
        Connector(TOKEN, reactor).connect("tcp://127.0.0.1:1/head", lambda c, m: None, lambda c, r: None)
    assert caught.value.errno == errno.ENETUNREACH


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_timers_run_in_order_and_not_before_their_time():
    clock = Clock()
    loop = Reactor(clock)
    ran = []
    loop.call_later(2.0, lambda: ran.append("second"))
    loop.call_later(1.0, lambda: ran.append("first"))
    loop.poll(0)
    assert ran == []
    clock.now = 3.0
    loop.poll(0)
    assert ran == ["first", "second"]
    assert loop.poll(0) is False  # and nothing is left to wait for
    loop.close()


def test_a_poll_can_be_woken_from_another_thread(reactor):
    timer = threading.Timer(0.05, reactor.wake)
    timer.start()
    assert reactor.poll(120.0) is True
    timer.join()


@pytest.mark.parametrize("make", [make_poller, SelectorPoller])
def test_pollers_agree(make):
    poller = make()
    ours, theirs = socket.socketpair()
    poller.register(ours.fileno(), READ)
    assert poller.poll(0) == []
    theirs.send(b"x")
    assert [(fd, bool(events & READ)) for fd, events in poller.poll(1)] == [(ours.fileno(), True)]
    poller.modify(ours.fileno(), READ | WRITE)
    ((_, events),) = poller.poll(1)
    assert events & READ and events & WRITE
    poller.unregister(ours.fileno())
    poller.unregister(ours.fileno())
    assert poller.poll(0) == []
    ours.close()
    theirs.close()
    poller.close()


def test_a_handshake_and_messages_in_one_piece(reactor):
    """A client may send its first messages right behind its proof."""
    left, right = socket.socketpair()
    client = End(left, reactor, Handshake(TOKEN, server=False))
    server_end = End(right, reactor, Handshake(TOKEN, server=True))
    client.connection.send((1, "early"))
    settle(reactor, client, server_end, until=lambda: server_end.received == [(1, "early")])
    assert client.connection.authenticated and server_end.connection.authenticated
    client.connection.close()
    server_end.connection.close()
