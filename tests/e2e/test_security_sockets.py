"""Bad input on every socket of a session: refused, one line in a log, and everything else goes on."""

from __future__ import annotations

import marshal
import os
import random
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernel
from kernel.testing.constants import constants
from kernel.testing.faults import wait_until
from kernel.testing.session import RunningSession, running_session
from kernel_engine.messages.named_messages import packed
from kernel_processes.transport.accepted_connections import HANDSHAKE_SECONDS
from kernel_processes.transport.authentication import MAGIC, Handshake

HANDSHAKE_BYTES = len(MAGIC) + 16 + 32
HANDSHAKE = "kernel_processes.transport.accepted_connections.HANDSHAKE_SECONDS"
SECONDS = 120.0


@kernel.remote
def double(x: int) -> int:
    return 2 * x


@kernel.remote
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


class Healthy:
    """A session with an actor, whose sockets are attacked, and a check that it works."""

    def __init__(self, session: RunningSession) -> None:
        self.session = session
        self.counter = Counter.remote()
        self.calls = 0
        self.agent = session.agent
        self.check()
        self.workers = session.workers()
        self.token = bytes.fromhex(Path(session.directory, "token").read_text())

    def check(self) -> None:
        self.calls += 1
        assert kernel.get(self.counter.add.remote(), timeout=SECONDS) == self.calls
        assert kernel.get([double.remote(i) for i in range(20)], timeout=SECONDS) == [2 * i for i in range(20)]
        assert kernel.get(kernel.put(np.ones(50_000)), timeout=SECONDS).sum() == 50_000
        assert self.session.agent == self.agent, "the agent lives"

    def lines(self) -> list[str]:
        """Return the lines of the agent's log."""
        return self.session.log().splitlines()

    def targets(self) -> list[str]:
        """Return the sockets of the agent, the driver, the actor and an idle worker."""
        return self.session.sockets()


@pytest.fixture(scope="module")
def healthy() -> Iterator[Healthy]:
    """A session that waits ten minutes for who says nothing: who is refused sooner is refused for what was said."""
    with pytest.MonkeyPatch.context() as patch, constants({HANDSHAKE: 600.0}):
        patch.setattr(HANDSHAKE, 600.0)
        with running_session() as session:
            yield Healthy(session)


def connect(sock: socket.socket, path: str) -> None:
    """Connect to a process, which may only have bound its socket yet."""
    wait_until(lambda: sock.connect_ex(path) == 0, SECONDS, f"somebody to listen at {path}")


@contextmanager
def connected(path: str, timeout: float = SECONDS) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        connect(sock, path)
        yield sock


def read_to_end(sock: socket.socket) -> bytes:
    """Return what comes until the other side closes; fails when it does not."""
    data = b""
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionError:
            return data
        if not more:
            return data
        data += more


def send(sock: socket.socket, data: bytes) -> None:
    """Send as much as the other side takes before it hangs up."""
    try:
        sock.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return


def shake_hands(sock: socket.socket, token: bytes) -> None:
    handshake = Handshake(token, server=False)
    while not handshake.done:
        sock.sendall(handshake.feed(sock.recv(4096)))


def frame(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


# -- without the token ---------------------------------------------------------------------------------------------

NOISE = random.Random(5).randbytes(1_000_000)
STRANGERS: dict[str, Callable[[bytes], bytes]] = {
    "nothing of ours": lambda greeting: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3,
    "random bytes": lambda greeting: NOISE[:200],
    "a million bytes": lambda greeting: NOISE,
    "zeros": lambda greeting: bytes(1000),
    "a wrong proof": lambda greeting: MAGIC + bytes(16) + bytes(32),
    "a wrong token": lambda greeting: wrong_token(greeting),
    "an empty token": lambda greeting: wrong_token(greeting, b""),
    "our own greeting back": lambda greeting: greeting + NOISE[:32],
    "a frame before the proof": lambda greeting: frame(marshal.dumps([(1, b"x")])) * 20,
}


def wrong_token(greeting: bytes, token: bytes = b"\x01" * 32) -> bytes:
    return Handshake(token, server=False).feed(greeting)


def test_half_open_connections_are_dropped() -> None:
    """This is the first test, because `healthy` makes all sessions patient from when it is there."""
    kernel.shutdown()
    with running_session() as session:
        healthy = Healthy(session)
        begun = time.monotonic()
        silent, partial = [], []
        for path in healthy.targets():
            for sockets in (silent, partial):
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(SECONDS)
                connect(sock, path)
                sockets.append(sock)
        for sock in partial:
            sock.sendall(MAGIC + bytes(10))
        healthy.check()
        for sock in [*silent, *partial]:
            assert len(read_to_end(sock)) == 24
            sock.close()
        assert time.monotonic() - begun > HANDSHAKE_SECONDS - 1
        healthy.check()


@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_are_refused_everywhere(healthy: Healthy, kind: str) -> None:
    for path in healthy.targets():
        with connected(path) as sock:
            greeting = sock.recv(4096)
            assert greeting.startswith(MAGIC) and len(greeting) == 24
            send(sock, STRANGERS[kind](greeting))
            assert read_to_end(sock) == b"", "nothing is said to a stranger, and that at once"
    healthy.check()


def test_a_refusal_is_one_line_in_the_log(healthy: Healthy) -> None:
    agent = healthy.targets()[0]
    before = len(healthy.lines())
    with connected(agent) as sock:
        send(sock, wrong_token(sock.recv(4096)))
        read_to_end(sock)
    wait_until(lambda: len(healthy.lines()) > before, SECONDS, "a line in the agent's log")
    line = healthy.lines()[before:]
    assert len(line) == 1 and "refused" in line[0] and "wrong session token" in line[0]


def test_a_flood_of_silent_connections_keeps_nobody_out(healthy: Healthy) -> None:
    agent = healthy.targets()[0]
    crowd = []
    for _ in range(400):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(SECONDS)
        sock.connect(agent)
        crowd.append(sock)
    healthy.check()
    for sock in crowd:
        sock.close()
    wait_until(lambda: can_join(healthy), SECONDS, "room for who has the token")
    healthy.check()


def can_join(healthy: Healthy) -> bool:
    with connected(healthy.targets()[0]) as sock:
        try:
            shake_hands(sock, healthy.token)
        except OSError:
            return False
        return True


def test_a_recorded_handshake_can_not_be_played_again(healthy: Healthy) -> None:
    for path in healthy.targets():
        with connected(path) as sock:
            recorded = Handshake(healthy.token, server=False).feed(sock.recv(4096))
            sock.sendall(recorded)
            assert len(sock.recv(4096)) == 32, "the first time it is good"
        with connected(path) as sock:
            sock.recv(4096)
            send(sock, recorded)
            assert read_to_end(sock) == b""
    healthy.check()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), cut=st.integers(0, HANDSHAKE_BYTES), flip=st.integers(0, HANDSHAKE_BYTES * 8 - 1))
def test_fuzzed_handshakes_are_refused(healthy: Healthy, data: bytes, cut: int, flip: int) -> None:
    path = healthy.targets()[flip % len(healthy.targets())]
    with connected(path) as sock:
        good = bytearray(Handshake(healthy.token, server=False).feed(sock.recv(4096)))
        good[flip // 8] ^= 1 << flip % 8
        send(sock, bytes(good[:cut]) + data)
        sock.shutdown(socket.SHUT_WR)
        assert read_to_end(sock) == b"", "one wrong bit is wrong"


# -- with the token ------------------------------------------------------------------------------------------------

MALFORMED: dict[str, bytes] = {
    "an oversized length": struct.pack("<I", 0xFFFFFFFF) + b"x" * 100,
    "a length over the limit": struct.pack("<I", (1 << 30) + 1),
    "no marshal": frame(b"\xff" * 50),
    "marshal cut short": frame(marshal.dumps([(1, b"abc", 5)])[:-4]),
    "a frame of one zero": frame(b"\0"),
    "a number": frame(marshal.dumps(5)),
    "a dictionary": frame(marshal.dumps({1: 2})),
    "a list of numbers": frame(marshal.dumps([5, 6])),
    "an empty message": frame(marshal.dumps([()])),
    "a message without an operation": frame(marshal.dumps([("hello", 1)])),
    "an unknown operation": frame(marshal.dumps([(10**6, 1)])),
    "an introduction without content": frame(marshal.dumps([(1,)])),
    "a request before the introduction": frame(marshal.dumps([(2, 1, "stop", ())])),
    "code": frame(marshal.dumps([compile("1", "x", "eval")])),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_frames_end_the_connection_and_nothing_else(healthy: Healthy, kind: str) -> None:
    for path in healthy.targets():
        before = len(healthy.lines())
        with connected(path) as sock:
            shake_hands(sock, healthy.token)
            send(sock, MALFORMED[kind])
            assert read_to_end(sock) == b""
        if path.endswith("agent.sock"):
            wait_until(lambda seen=before: len(healthy.lines()) > seen, SECONDS, "a line in the log")
            assert len(healthy.lines()) == before + 1
    healthy.check()


def test_malformed_messages_after_the_introduction(healthy: Healthy) -> None:
    from kernel_engine.messages import process_messages as op
    from kernel_processes.protocol.python_version import PYTHON

    hello = marshal.dumps(
        [
            packed(
                op.Introduction(
                    process=b"stranger", role="worker", pid=1, address="/nowhere", python=PYTHON, details={}
                )
            )
        ]
    )
    for path in healthy.targets():
        for bad in ([5], [()], ["text"], [(10**6,)], [None, (1, 2)]):
            with connected(path) as sock:
                shake_hands(sock, healthy.token)
                send(sock, frame(hello) + frame(marshal.dumps(bad)))
                read_to_end(sock)
    healthy.check()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    messages=st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=20), st.integers()), max_size=4),
    cut=st.integers(0, 200),
    tail=st.binary(max_size=60),
    which=st.integers(0, 10),
)  # fmt: skip
def test_fuzzed_frames_after_the_handshake(
    healthy: Healthy, messages: list[tuple], cut: int, tail: bytes, which: int
) -> None:
    path = healthy.targets()[which % len(healthy.targets())]
    with connected(path) as sock:
        shake_hands(sock, healthy.token)
        send(sock, frame(marshal.dumps(messages)[:cut]) + tail)
        sock.shutdown(socket.SHUT_WR)
        read_to_end(sock)


def test_the_session_is_healthy_after_all_of_this(healthy: Healthy) -> None:
    healthy.check()
    assert len(healthy.session.workers()) >= 1
    assert set(healthy.workers) <= set(healthy.session.workers())


# -- files and secrets ---------------------------------------------------------------------------------------------


def test_directories_and_sockets_are_private(healthy: Healthy) -> None:
    top = Path(healthy.session.directory)
    for path in [top.parent, *top.rglob("*"), top]:
        mode = path.stat().st_mode
        if path.is_socket() or path.name == "token":
            assert stat.S_IMODE(mode) == 0o600, path
        elif path.is_dir():
            assert stat.S_IMODE(mode) == 0o700, path
        assert path.stat().st_uid == os.getuid()


def test_the_token_is_nowhere_but_in_its_file(healthy: Healthy) -> None:
    secrets = (healthy.token.hex().encode(), healthy.token)
    for pid in [healthy.agent, healthy.session.template, *healthy.session.workers()]:
        for name in ("cmdline", "environ"):
            content = Path(f"/proc/{pid}/{name}").read_bytes()
            assert not any(secret in content for secret in secrets)
    for path in Path(healthy.session.directory).rglob("*"):
        if path.is_file() and path.name != "token":
            assert not any(secret in path.read_bytes() for secret in secrets), path


def test_a_token_that_others_may_read_is_refused(healthy: Healthy) -> None:
    from kernel.exceptions import ProtocolError
    from kernel_processes.transport.authentication import read_token

    path = Path(healthy.session.directory, "token")
    os.chmod(path, 0o644)
    try:
        with pytest.raises(ProtocolError, match="chmod 600"):
            read_token(path)
    finally:
        os.chmod(path, 0o600)
