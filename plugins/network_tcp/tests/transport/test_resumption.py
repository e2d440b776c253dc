"""A connection over TCP that is cut goes on: nothing is lost, nothing doubled, nothing out of order."""

from __future__ import annotations

import os
import socket
import struct
import time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_network_tcp.gateway import Gateway
from kernel_network_tcp.transport import control_frames as words
from kernel_network_tcp.transport import resend_buffer, tcp_connection
from kernel_network_tcp.transport.connect import connect
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.preamble import preamble
from kernel_network_tcp.transport.resend_buffer import ResendBuffer
from kernel_network_tcp.transport.tcp_connection import (
    ENDED_SECONDS,
    RELAYED_RESUME_SECONDS,
    RESUME_SECONDS,
    TcpConnection,
)

from kernel.testing.clocks import UnhurriedClock
from kernel.testing.leaks import count_descriptors
from kernel_processes.cli import certificates
from kernel_processes.transport.authentication import Handshake
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ProtocolError
from kernel_spec.tls_files import TlsFiles

TOKEN = b"t" * 32
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
RESET, END, HALF = "reset", "end", "half"
"""How a cut is made: with resets, in good order, or so that only the client hears of it."""


class Relay:
    """A network between client and gateway that passes so many bytes, in both directions together, and then cuts."""

    def __init__(self, port, cuts=()):
        self.port = port
        self.cuts = list(cuts)
        self.up = True
        self._waiting = {}
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setblocking(False)
        self._pairs = []
        self._left_open = []

    @property
    def place(self):
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def step(self):
        """Accept, and carry what there is."""
        while True:
            try:
                near, _ = self._listening.accept()
            except BlockingIOError:
                break
            if not self.up:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.port))
            near.setblocking(False)
            far.setblocking(False)
            self._pairs.append((near, far))
        for pair in list(self._pairs):
            for one, other in (pair, pair[::-1]):
                if pair in self._pairs:
                    self._carry(pair, one, other)

    def cut(self, how=RESET):
        """Cut everything."""
        for pair in list(self._pairs):
            self._cut(pair, how)

    def close(self):
        self.cut()
        for sock in (self._listening, *self._left_open):
            sock.close()

    def _carry(self, pair, one, other):
        waiting = self._waiting.setdefault(other, bytearray())
        budget = self.cuts[0][0] if self.cuts else 1 << 16
        try:
            if not waiting:
                data = one.recv(min(max(budget, 1), 1 << 16))
                waiting += data[:budget]
                if not data:
                    self._cut(pair, END)
                    return
            sent = other.send(waiting)
        except BlockingIOError:
            return
        except OSError:
            self._cut(pair, END)
            return
        del waiting[:sent]
        if self.cuts:
            left, how = self.cuts[0]
            self.cuts[0] = (left - sent, how)
            if left <= sent:
                self.cuts.pop(0)
                self._cut(pair, how)

    def _cut(self, pair, how):
        self._pairs.remove(pair)
        near, far = pair
        for sock in pair:
            self._waiting.pop(sock, None)
        if how == RESET:
            for sock in pair:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        near.close()
        if how == HALF:
            self._left_open.append(far)
        else:
            far.close()


class Pair:
    """A client and a server, with a relay between them, in one loop whose clock can be put forward."""

    def __init__(self, directory, cuts=(), tls=None, resume_seconds=RESUME_SECONDS):
        self.clock = UnhurriedClock()
        self.reactor = Reactor(self.clock)
        self.refused, self.server_arrived, self.client_arrived = [], [], []
        self.server_closed, self.client_closed, self.servers = [], [], []
        self.gateway = Gateway("127.0.0.1", 0, TOKEN, self.reactor, directory, self.refused.append, tls=tls)
        self.gateway.serve_connections(
            "agent", self.on_messages, lambda c, reason: self.server_closed.append(reason), resume_seconds
        )
        self.relay = Relay(self.gateway.port, cuts)
        self.client = self.connect(tls, resume_seconds)

    def connect(self, tls=None, resume_seconds=RESUME_SECONDS):
        return connect(
            f"tcp://{self.relay.place}/agent",
            TOKEN,
            self.reactor,
            lambda c, messages: self.client_arrived.extend(messages),
            lambda c, reason: self.client_closed.append(reason),
            tls,
            resume_seconds=resume_seconds,
        )

    def on_messages(self, connection, messages):
        self.server_arrived += messages
        if connection not in self.servers:
            self.servers.append(connection)

    @property
    def server(self):
        return self.servers[-1]

    def step(self):
        self.relay.step()
        self.reactor.poll(0.0005)

    def until(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, (self.client_closed, self.server_closed, self.refused[-3:])
            self.step()

    def begin(self):
        """Have both sides hear of each other."""
        self.client.send(("begin",))
        self.client.flush()
        self.until(lambda: self.servers)
        self.server.send(("begun",))
        self.server.flush()
        self.until(lambda: self.client_arrived)
        self.server_arrived.clear()
        self.client_arrived.clear()

    def close(self):
        self.client.close()
        for server in self.servers:
            server.close()
        self.gateway.close()
        self.relay.close()
        self.reactor.close()


@pytest.fixture
def make(tmp_path):
    pairs = []

    def made(**options):
        pairs.append(Pair(str(tmp_path), **options))
        return pairs[-1]

    yield made
    for pair in pairs:
        pair.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    certificates.create(directory)
    return Credentials(TlsFiles.of_directory(str(directory)))


# -- what is kept and counted ------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(steps=st.lists(st.tuples(st.sampled_from(["send", "arrive", "acknowledge", "cut"]), st.integers(0, 100))))
def test_the_log_loses_and_doubles_nothing(steps):
    """One direction: frames under way, and acknowledgements under way, vanish with each cut."""
    sender, receiver = ResendBuffer(), ResendBuffer()
    wire, answers, delivered = [], [], []
    for number, (step, size) in enumerate(steps):
        if step == "send":
            frame = number.to_bytes(4, "little") + b"x" * size
            sender.keep(frame)
            wire.append(frame)
        elif step == "arrive" and wire:
            frame = wire.pop(0)
            receiver.note_received(len(frame))
            delivered.append(frame)
            answers.append(receiver.acknowledge())
        elif step == "acknowledge" and answers:
            sender.acknowledged(answers.pop(0))
        elif step == "cut":
            wire.clear()
            answers.clear()
            sender.acknowledged(receiver.acknowledge())
            wire.extend(sender.kept)
        sender.validate()
        receiver.validate()
    expected = [step for step in range(len(steps)) if steps[step][0] == "send"]
    assert [int.from_bytes(frame[:4], "little") for frame in delivered + wire] == expected


def test_an_impossible_acknowledgement_is_refused():
    log = ResendBuffer()
    for _ in range(3):
        log.keep(b"frame")
    log.acknowledged(2)
    for number in (1, 4):
        with pytest.raises(ProtocolError, match=rf"received {number} frames, which should be from 2 to 3"):
            log.acknowledged(number)
    log.acknowledged(3)
    assert log.kept_bytes == 0


# -- cuts --------------------------------------------------------------------------------------------------------------

CUTS = st.lists(
    st.tuples(st.one_of(st.integers(1, 400), st.integers(1, 60_000)), st.sampled_from([RESET, END, HALF])), max_size=8
)
SIZES = st.lists(st.one_of(st.integers(0, 200), st.integers(0, 30_000)), max_size=40)


def exchange(directory, cuts, upwards, downwards, tls=None):
    with patch.object(tcp_connection, "ENDED_SECONDS", RESUME_SECONDS):  # a network ends connections here, no peer does
        _exchange(Pair(directory, cuts, tls), upwards, downwards)


def _exchange(pair, upwards, downwards):
    try:
        pair.client.send(("begin",))
        pair.client.flush()
        up = [(number, os.urandom(size)) for number, size in enumerate(upwards)]
        down = [(number, os.urandom(size)) for number, size in enumerate(downwards)]
        rest_up, rest_down = list(up), list(down)

        def turn():
            if rest_up:
                pair.client.send(rest_up.pop(0))
                pair.client.flush()
            if rest_down and pair.servers:
                pair.server.send(rest_down.pop(0))
                pair.server.flush()
            return len(pair.server_arrived) > len(up) and len(pair.client_arrived) >= len(down)

        pair.until(turn)
        for _ in range(3):  # nothing comes after
            pair.step()
        assert pair.server_arrived == [("begin",), *up]
        assert pair.client_arrived == down
        assert len(pair.servers) == 1 and pair.client_closed == pair.server_closed == []
    finally:
        pair.close()


@settings(deadline=None, max_examples=60)
@given(cuts=CUTS, upwards=SIZES, downwards=SIZES)
def test_random_cuts_lose_and_double_nothing(tmp_path_factory, cuts, upwards, downwards):
    exchange(str(tmp_path_factory.getbasetemp()), cuts, upwards, downwards)


@settings(deadline=None, max_examples=20)
@given(cuts=CUTS, upwards=SIZES, downwards=SIZES)
def test_random_cuts_in_tls_lose_and_double_nothing(tmp_path_factory, tls, cuts, upwards, downwards):
    exchange(str(tmp_path_factory.getbasetemp()), cuts, upwards, downwards, tls)


@pytest.mark.parametrize("size", range(1, 240, 7))
@pytest.mark.parametrize("how", [RESET, END, HALF])
def test_the_first_bytes_may_be_cut_anywhere(tmp_path, size, how):
    exchange(str(tmp_path), [(size, how), (size + 30, how)], [10, 20, 30], [10, 20])


@pytest.mark.parametrize("secured", [False, True])
def test_every_attempt_to_go_on_may_be_cut_for_a_while(tmp_path, tls, secured):
    cuts = [(9000 if secured else 3000, END), *[(10, END)] * 7]
    exchange(str(tmp_path), cuts, [10, 20, 30, *[1000] * 20], [10, 20], tls if secured else None)


def test_who_doubts_a_silent_socket_does_not_end_it_before_there_is_another(make):
    pair = make()
    pair.begin()
    pair.relay.up = False
    pair.client.doubt("no message came")
    for _ in range(50):
        pair.step()
    assert pair.client.fd < 0 <= pair.server.fd, "the peer has not noticed the end"
    pair.client.send(("later",))
    pair.relay.up = True
    pair.clock.added += 2.0
    pair.until(lambda: pair.server_arrived)
    assert pair.server_arrived == [("later",)] and pair.client_closed == pair.server_closed == []
    pair.until(lambda: len(pair.relay._pairs) == 1)  # the first is closed now


def test_what_is_sent_while_there_is_no_network_arrives_later(make):
    pair = make()
    pair.begin()
    pair.relay.up = False
    pair.relay.cut()
    for _ in range(30):
        pair.step()
    for number in range(1000):
        pair.client.send((number,))
        pair.server.send((number,))
    pair.client.flush()
    pair.server.flush()
    pair.relay.up = True
    pair.clock.added += 2.0  # the longest pause between attempts, and more
    pair.until(lambda: len(pair.server_arrived) == len(pair.client_arrived) == 1000)
    assert pair.server_arrived == pair.client_arrived == [(number,) for number in range(1000)]
    assert pair.client_closed == pair.server_closed == []


@pytest.mark.parametrize("how", [RESET, END, HALF])
@pytest.mark.parametrize("secured", [False, True])
def test_a_cut_in_the_middle_of_large_messages(make, tls, how, secured):
    pair = make(tls=tls if secured else None)
    pair.begin()
    large = [(number, os.urandom(6 << 20)) for number in range(3)]
    for connection in (pair.client, pair.server):
        for message in large:
            connection.send(message)
        connection.flush()
    assert pair.client._pending and pair.server._pending
    for _ in range(3):
        pair.relay.cut(how)
        for _ in range(40):
            pair.step()
    pair.until(lambda: len(pair.client_arrived) >= 3 and len(pair.server_arrived) >= 3)
    assert pair.client_arrived == pair.server_arrived == large


def test_a_socket_that_only_the_server_believes_in_is_replaced(make):
    pair = make()
    pair.begin()
    pair.relay.cut(HALF)
    pair.client.send((1,))
    pair.client.flush()
    pair.until(lambda: pair.server_arrived == [(1,)])
    pair.server.send((2,))
    pair.server.flush()
    pair.until(lambda: pair.client_arrived == [(2,)])
    assert pair.server.fd >= 0 and len(pair.servers) == 1


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "seconds"), [(RESET, RESUME_SECONDS), (END, ENDED_SECONDS)], ids=["cut", "ended in good order"]
)
def test_a_peer_is_lost_when_it_does_not_come_back_in_time(make, how, seconds):
    pair = make()
    pair.begin()
    pair.clock.stop()
    pair.relay.up = False
    pair.relay.cut(how)
    pair.until(lambda: pair.client.fd == pair.server.fd == -1)
    pair.client.send(("unsent",))
    pair.clock.added += seconds - 0.5
    for _ in range(20):
        pair.step()
    assert pair.client_closed == pair.server_closed == []
    pair.clock.added += 0.6
    pair.until(lambda: pair.client_closed and pair.server_closed)
    for reason in pair.client_closed + pair.server_closed:
        assert reason.endswith(f"and it was not resumed within {seconds:g} s")
    assert pair.client.outbox == [("unsent",)]
    for _ in range(20):
        pair.step()
    assert len(pair.client_closed) == len(pair.server_closed) == 1


@pytest.mark.parametrize(
    "patient", [TcpConnection.allow_for_relay, lambda one: one.wait_even_if_ended(RELAYED_RESUME_SECONDS)]
)
def test_an_end_by_somebody_on_the_way_is_waited_for_as_a_cut(make, patient):
    """What stands on the way accepts, and passes nothing on for longer than a peer that has ended is waited for."""
    pair = make()
    pair.begin()
    for one in (pair.client, pair.server):
        patient(one)
    pair.clock.stop()
    pair.relay.cut(END)
    pair.until(lambda: pair.client.fd == pair.server.fd == -1)
    pair.client.send(("later",))
    pair.clock.added += RELAYED_RESUME_SECONDS - 0.1
    for _ in range(20):
        pair.reactor.poll(0.0005)
    assert pair.client_closed == pair.server_closed == []
    pair.until(lambda: pair.server_arrived)
    assert pair.server_arrived == [("later",)] and len(pair.servers) == 1


def test_a_machine_on_which_nobody_listens_is_not_waited_for_long(make):
    pair = make()
    pair.begin()
    pair.relay._listening.close()
    pair.relay._listening = socket.socket()  # which listens nowhere
    pair.relay._listening.setblocking(False)
    pair.relay.step = lambda: None
    pair.relay.cut()
    pair.until(lambda: pair.client.fd == -1)
    pair.clock.added += ENDED_SECONDS + 0.1
    pair.until(lambda: pair.client_closed)
    assert pair.client_closed[0].endswith("Connection refused, and it was not resumed within 1 s")
    assert pair.server_closed == []


def test_who_comes_too_late_is_told_so(make):
    pair = make()
    pair.begin()
    pair.relay.up = False
    pair.relay.cut()
    pair.until(lambda: pair.client.fd == pair.server.fd == -1)
    pair.server.close("shutting down")
    pair.relay.up = True
    pair.clock.added += 1.1
    pair.until(lambda: pair.client_closed)
    assert pair.client_closed == ["the peer has given up this connection"]


def test_messages_are_not_received_twice_when_the_server_forgot(make):
    """A client that has no acknowledgement comes back to a server that received its messages, and gave it up."""
    pair = make()
    pair.begin()
    pair.relay.up = False
    pair.relay.cut()
    pair.until(lambda: pair.client.fd == pair.server.fd == -1)
    pair.client.fresh = True
    pair.server.give_up("enough")
    pair.relay.up = True
    pair.clock.added += 1.1
    pair.until(lambda: pair.client_closed)
    assert pair.server_arrived == [] and len(pair.servers) == 1


def test_a_goodbye_is_believed_at_once(make):
    pair = make()
    pair.begin()
    pair.server.send(("last",))
    pair.server.flush()
    pair.server.close("shutting down")
    pair.until(lambda: pair.client_closed)
    assert pair.client_closed == ["the peer closed the connection"]
    assert pair.client_arrived == [("last",)]
    assert pair.clock.added == 0.0


@pytest.mark.parametrize("cut", [False, True])
def test_a_peer_that_is_known_to_be_dead_is_not_waited_for(make, cut):
    pair = make()
    pair.begin()
    if cut:
        pair.relay.up = False
        pair.relay.cut()
        pair.until(lambda: pair.client.fd == -1)
    pair.client.give_up("its node is dead")
    assert pair.client_closed == ["its node is dead"]
    assert pair.client.fd == -1


def test_without_resumption_a_cut_is_the_end(make):
    pair = make(resume_seconds=0.0)
    pair.begin()
    pair.relay.cut()
    pair.until(lambda: pair.client_closed and pair.server_closed)
    assert all("closed the connection" in r or "broke" in r for r in pair.client_closed + pair.server_closed)


def test_a_target_that_is_gone_is_lost_at_the_first_attempt(make):
    pair = make()
    pair.begin()
    del pair.gateway._targets["agent"]
    pair.relay.cut()
    pair.until(lambda: pair.client_closed)
    assert pair.client_closed[0].endswith("nobody of that name is there; a process that was has ended")
    assert pair.clock.added == 0.0


# -- what is bounded ---------------------------------------------------------------------------------------------------


def test_a_peer_that_reads_nothing_holds_the_sender_up(make, monkeypatch):
    monkeypatch.setattr(resend_buffer, "MOST_KEPT_BYTES", 1 << 20)
    pair = make()
    pair.begin()
    sent = [(number, bytes(100_000)) for number in range(100)]
    for message in sent:
        pair.client.send(message)
        pair.client.flush()
    log = pair.client._resend
    assert log.kept_bytes < (1 << 20) + 100_100 and pair.client.outbox
    pair.until(lambda: len(pair.server_arrived) == 100)
    assert pair.server_arrived == sent


def test_little_is_kept_when_all_is_quiet(make):
    pair = make()
    pair.begin()
    for number in range(3000):
        pair.client.send((number, b"x" * 1000))
        pair.client.flush()
    pair.until(lambda: len(pair.server_arrived) == 3000)
    pair.until(lambda: pair.client._resend.kept_bytes < 2 * resend_buffer.ACKNOWLEDGE_BYTES)
    assert len(pair.client._resend.kept) <= 2 * resend_buffer.ACKNOWLEDGE_FRAMES


def test_hundreds_of_cuts_leave_nothing_behind(make):
    pair = make()
    pair.begin()
    watched, descriptors = pair.reactor.watched, count_descriptors()
    for number in range(200):
        pair.relay.cut((RESET, END)[number % 2])
        pair.client.send((number,))
        pair.client.flush()
        pair.until(lambda number=number: pair.server_arrived[-1:] == [(number,)])
    assert pair.server_arrived == [(number,) for number in range(200)]
    pair.until(lambda: pair.reactor.watched == watched)
    assert count_descriptors() <= descriptors


# -- what is nonsense --------------------------------------------------------------------------------------------------


def stranger(pair, *data):
    """Return a raw socket that has proved the token and greeted, and has then said `data`."""
    sock = socket.create_connection(("127.0.0.1", pair.gateway.port))
    sock.sendall(preamble("agent", False))
    sock.setblocking(False)
    handshake = Handshake(TOKEN, server=False)

    def on():
        try:
            received = sock.recv(1000)
        except BlockingIOError:
            return False
        sock.sendall(handshake.feed(received))
        return handshake.done

    pair.until(on)
    for one in data:
        sock.sendall(one)
    return sock


NEW = words.Greeting(True, b"n" * 16, 0).pack()


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (words.CONTROL.pack(words.ACKNOWLEDGED, 7), "says that it received 7 frames, which should be from 0 to 0"),
        (words.CONTROL.pack(words.LOWEST, 0), "which means nothing"),
        (b"\0\0\0\0", "don't travel between machines"),
        (struct.pack("<I", 0xFFFFFFE0), "longer than the"),
        (struct.pack("<I", 3) + b"abc", "frame"),
        (struct.pack("<I", 3)[:2], ""),
    ],
)
def test_nonsense_ends_the_connection(make, said, complaint):
    pair = make()
    sock = stranger(pair, NEW, said)
    if complaint:
        pair.until(lambda: pair.refused)
        assert complaint in pair.refused[0]
    sock.close()


def test_a_greeting_of_a_connection_that_never_was_is_turned_away(make):
    pair = make()
    sock = stranger(pair, words.Greeting(False, b"n" * 16, 5).pack())
    arrived = bytearray()

    def on():
        try:
            data = sock.recv(1000)
        except BlockingIOError:
            return False
        arrived.extend(data)
        return not data

    pair.until(on)
    assert arrived == words.CONTROL.pack(words.FORGOTTEN, 0)
    sock.close()


def test_a_greeting_that_claims_too_much_is_refused(make):
    pair = make()
    sock = stranger(pair, words.Greeting(True, b"n" * 16, 5).pack())
    pair.until(lambda: pair.refused)
    assert "says that it received 5 frames" in pair.refused[0]
    sock.close()


def test_a_greeting_in_pieces_is_put_together(make):
    pair = make()
    sock = stranger(pair)
    for byte in NEW:
        sock.sendall(bytes([byte]))
        pair.step()
    sock.sendall(b"\x06\0\0\0[\0\0\0\0\0"[:4] + b"[\1\0\0\0N")
    pair.until(lambda: pair.server_arrived)
    assert pair.server_arrived == [None]
    sock.close()
