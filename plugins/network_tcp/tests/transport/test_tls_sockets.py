"""TLS on a node's port: the same connections, and one clear line on both sides for whoever does not fit."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import threading
from datetime import datetime, timedelta, timezone

import pytest
from kernel_network_tcp.transport.connect import connect, open_socket
from kernel_network_tcp.transport.credentials import Credentials
from kernel_network_tcp.transport.preamble import NOT_HERE, preamble, refusal

from kernel_processes.cli import certificates
from kernel_spec.errors import OptionError, ProtocolError
from kernel_spec.tls_files import TlsFiles
from plugins.network_tcp.tests.gateway_node import PROCESS, SECONDS, TOKEN, GatewayNode


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Directories with certificates: good, of another authority, and of the good one at other times."""
    root = tmp_path_factory.mktemp("tls")
    now = datetime.now(timezone.utc)
    for name in ("good", "stranger"):
        certificates.create(root / name)
    for name, begins in (("expired", now - timedelta(days=20)), ("early", now + timedelta(days=5))):
        shutil.copytree(root / "good", root / name)
        certificates.renew(root / name, days=10, now=begins)
    return root


def credentials(directory):
    return Credentials(TlsFiles.of_directory(str(directory)))


class Node(GatewayNode):
    """A gateway whose service and process answer what they hear, and count refused peers alike."""

    def __init__(self, directory, tls, **options):
        super().__init__(directory, tls, **options)
        self.closed = self.process_refused = self.refused
        self.start_process()

    def on_messages(self, connection, messages):
        self.incoming += messages
        connection.outbox += messages
        connection.flush()

    on_process_messages = on_messages


@pytest.fixture
def start(tmp_path):
    nodes = []

    def started(tls, **options):
        nodes.append(Node(tmp_path, tls, **options))
        return nodes[-1]

    yield started
    for node in nodes:
        node.close()


# -- what works --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["agent", PROCESS])
def test_messages_of_any_size_go_both_ways(made, start, target):
    tls = credentials(made / "good")
    node = start(tls)
    connection = node.connect(target, tls=tls)
    messages = [(number, os.urandom(size)) for number, size in enumerate((1, 100, 16384, 16385, 70_000, 4 << 20, 3))]
    for message in messages:
        connection.send(message)
    connection.flush()
    node.until(lambda: len(connection.info[0]) == len(messages))
    assert connection.info[0] == node.incoming == messages
    assert node.refused == []
    connection.close()


def test_what_travels_can_not_be_read(made, start):
    tls = credentials(made / "good")
    node = start(tls)
    seen = bytearray()
    between = socket.create_server(("127.0.0.1", 0))
    connection = connect(
        f"tcp://127.0.0.1:{between.getsockname()[1]}/agent",
        TOKEN,
        node.reactor,
        lambda c, m: None,
        lambda c, r: None,
        tls,
    )
    connection.send((1, "a secret that nobody may read"))
    near, _ = between.accept()
    far = socket.create_connection(("127.0.0.1", node.gateway.port))
    near.setblocking(False)
    far.setblocking(False)

    def carry():
        for one, other in ((near, far), (far, near)):
            try:
                data = one.recv(1 << 16)
            except BlockingIOError:
                continue
            seen.extend(data)
            other.sendall(data)
        return node.incoming

    node.until(carry)
    assert node.incoming == [(1, "a secret that nobody may read")]
    assert b"secret" not in seen and b"kernel" not in seen[40:] and seen.startswith(b"KRN1\2agent")
    connection.close()
    for sock in (between, near, far):
        sock.close()


def test_threads_may_send_while_the_loop_reads(made, start):
    tls = credentials(made / "good")
    node = start(tls)
    connection = node.connect("agent", tls=tls)

    def work(name):
        for number in range(300):
            connection.send((name, number, b"x" * 2000))
            connection.flush()

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    node.until(lambda: (connection.flush(), len(connection.info[0]) == 900)[1])
    for name in range(3):
        assert [number for who, number, _ in connection.info[0] if who == name] == list(range(300))
    connection.close()


def test_bulk_sockets_are_in_tls(made, start):
    tls = credentials(made / "good")
    node = start(tls)
    mine = node.beside(lambda: open_socket(node.address("transfer"), TOKEN, SECONDS, tls))
    node.until(lambda: node.served)
    theirs = node.served[0]
    assert isinstance(mine, ssl.SSLSocket) and isinstance(theirs, ssl.SSLSocket)
    assert mine.version() == "TLSv1.3"
    data = os.urandom(3 << 20)
    sender = threading.Thread(target=theirs.sendall, args=(data,))
    sender.start()
    received = bytearray(len(data))
    view = memoryview(received)
    while view:
        view = view[mine.recv_into(view) :]
    sender.join()
    assert received == data
    mine.close()
    theirs.close()


def test_an_authority_may_certify_nodes_one_by_one(made, start, tmp_path):
    shutil.copytree(made / "good", tmp_path / "other")
    certificates.renew(tmp_path / "other", ["other.example"])
    node = start(credentials(made / "good"))
    connection = node.connect("agent", tls=credentials(tmp_path / "other"))
    connection.send((1, "hello"))
    node.until(lambda: node.incoming)
    connection.close()


def test_replaced_files_count_for_the_next_connection(made, start, tmp_path):
    shutil.copytree(made / "expired", tmp_path / "mine")
    mine = credentials(tmp_path / "mine")
    node = start(credentials(made / "good"))
    first = node.connect("agent", tls=mine)
    node.until(lambda: first.closed)
    for name in ("node.key", "node.pem"):
        shutil.copy(made / "good" / name, tmp_path / "mine" / name)
    second = node.connect("agent", tls=mine)
    second.send((1, "renewed"))
    node.until(lambda: node.incoming)
    (tmp_path / "mine" / "node.pem").write_text("damaged")
    third = node.connect("agent", tls=mine)
    node.until(lambda: third.closed)
    assert "TLS can't begin" in third.info[1][0] and "are no certificate and its key" in third.info[1][0]
    second.close()


# -- what does not fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["agent", PROCESS, "transfer"])
@pytest.mark.parametrize(
    ("server", "client", "server_says", "client_says"),
    [
        (
            "good",
            "expired",
            "the peer's certificate has expired",
            "refuses the certificate of this node: it is expired",
        ),
        ("good", "early", "the peer's certificate is not valid yet", "refuses the certificate of this node"),
        ("good", "stranger", "the peer's certificate is of another authority", "the peer's certificate is of another"),
        ("expired", "good", "refuses the certificate of this node: it is expired", "certificate has expired: renew it"),
        ("early", "good", "refuses the certificate of this node", "is not valid yet: compare the clocks"),
        ("good", None, "a peer speaks no TLS, which is on here: switch", "its gateway speaks TLS only: switch TLS on"),
        (
            None,
            "good",
            "a peer speaks TLS, which is off here: switch",
            "speaks no TLS: switch TLS on there too, or off",
        ),
    ],
)
def test_who_does_not_fit_is_told_why_in_one_line_on_both_sides(
    made, start, target, server, client, server_says, client_says
):
    node = start(server and credentials(made / server))
    tls = client and credentials(made / client)
    connection = node.connect(target, tls=tls)
    connection.send((1, "unheard"))
    node.until(lambda: connection.closed and node.refused)
    (reason,) = connection.info[1]
    assert client_says in reason and reason.startswith(f"no connection to {node.address(target)}: ")
    error = node.beside(lambda: open_socket(node.address(target), TOKEN, SECONDS, tls))
    assert isinstance(error, OSError | ProtocolError)
    assert client_says in str(error)
    node.until(lambda: len(node.refused) == 2)
    if client != "stranger":  # there the client refuses first, and who hears of it is the server
        assert server_says in node.refused[0] and server_says in node.refused[1]
    assert all("\n" not in line for line in [reason, str(error), *node.refused])
    assert node.incoming == node.served == []


def test_a_client_without_a_certificate_is_refused(made, start):
    node = start(credentials(made / "good"))
    context = ssl.create_default_context(cafile=str(made / "good" / "ca.pem"))
    sock = node.raw(preamble("agent", True))

    def speak():
        with context.wrap_socket(sock, server_hostname="localhost") as secured:
            return secured.recv(100)

    assert isinstance(node.beside(speak), ssl.SSLError)
    assert node.refused == ["the peer shows no certificate: give it one of the cluster's authority"]


def test_the_names_in_the_certificate_fit_those_who_compare_them(made, start):
    node = start(credentials(made / "good"))
    context = ssl.create_default_context(cafile=str(made / "good" / "ca.pem"))
    context.load_cert_chain(made / "good" / "node.pem", made / "good" / "node.key")
    for name in ("localhost", "127.0.0.1", certificates.NODE_NAME):
        sock = node.raw(preamble("agent", True))

        def speak(sock=sock, name=name):
            with context.wrap_socket(sock, server_hostname=name) as secured:
                return secured.recv(8)

        assert node.beside(speak) == b"kernel\0\1"


def test_an_older_tls_is_refused(made, start):
    node = start(credentials(made / "good"))
    context = ssl.create_default_context(cafile=str(made / "good" / "ca.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    sock = node.raw(preamble("agent", True))
    error = node.beside(lambda: context.wrap_socket(sock, server_hostname="localhost"))
    assert isinstance(error, ssl.SSLError)
    assert node.refused == ["the peer speaks an older TLS than 1.3"]


def test_a_wrong_token_is_refused_inside_tls(made, start):
    tls = credentials(made / "good")
    node = start(tls)
    connection = node.connect("agent", b"w" * 32, tls=tls)
    node.until(lambda: connection.closed and node.refused)
    assert node.refused == ["the peer has a wrong session token"]
    error = node.beside(lambda: open_socket(node.address("transfer"), b"w" * 32, SECONDS, tls))
    assert isinstance(error, ProtocolError) and "another session token" in str(error)
    assert node.incoming == node.served == []


def test_who_is_not_there_is_not_mistaken_for_one_without_tls(made, start):
    tls = credentials(made / "good")
    node = start(tls)
    connection = node.connect("f" * 16, tls=tls)
    node.until(lambda: connection.closed)
    error = node.beside(lambda: open_socket(node.address("f" * 16), TOKEN, SECONDS, tls))
    assert isinstance(error, ProtocolError)
    said = f"no connection to {node.address('f' * 16)}: nobody of that name is there; a process that was has ended"
    assert connection.info[1] == [said] and str(error) == said


def test_a_refusal_that_tls_was_first_to_read_is_understood(made):
    near, far = socket.socketpair()
    far.sendall(refusal(NOT_HERE))
    secured = credentials(made / "good").wrap(near, server=False)
    look = secured._refusal
    secured._refusal = lambda: setattr(secured, "_refusal", look)  # the first look came too early
    with pytest.raises(OSError, match="nobody of that name is there"):
        secured.shake_hands()
    secured.close()
    far.close()


@pytest.mark.parametrize("kind", [ssl.SSLEOFError, ssl.SSLZeroReturnError], ids=["newer", "older"])
def test_a_connection_cut_during_the_handshake_counts_as_cut_with_every_openssl(made, kind):
    near, far = socket.socketpair()
    secured = credentials(made / "good").wrap(near, server=False)

    def cut():
        raise kind("TLS/SSL connection has been closed (EOF)")

    secured.do_handshake = cut
    with pytest.raises(ConnectionResetError, match="the peer closed the connection during the TLS handshake"):
        secured.shake_hands()
    secured.close()
    far.close()


@pytest.mark.parametrize("target", ["agent", PROCESS])
def test_noise_instead_of_tls_is_refused(made, start, target):
    node = start(credentials(made / "good"))
    sock = node.raw(preamble(target, True))
    sock.setblocking(False)
    noise = memoryview(b"\0" + os.urandom(1_000_000))
    while noise and not node.refused:
        node.reactor.poll(0)
        try:
            noise = noise[sock.send(noise) :]
        except BlockingIOError:
            continue
        except OSError:
            break
    node.until(lambda: node.refused)
    assert re.fullmatch("the peer speaks no TLS.*|TLS failed.*|the peer speaks an older.*", node.refused[0])
    sock.close()


def test_a_tls_handshake_that_stops_is_dropped_in_time(made, start):
    node = start(credentials(made / "good"))
    node.clock.stop()
    sock = node.raw(preamble("agent", True) + b"\x16\x03\x01\x02\x00\x01")
    for _ in range(20):
        node.reactor.poll(0.01)
    assert node.refused == []
    node.clock.added = 16.0
    node.until(lambda: node.refused)
    assert node.refused == ["the peer did not prove the session token in time"]
    sock.close()


@pytest.mark.parametrize(("first", "on"), [(b"PRI * HTTP/2.0", True), (b"\x16\x03\x01\x02\x00", False)])
def test_other_protocols_have_to_speak_tls_as_well(made, start, tmp_path, first, on):
    node = start(credentials(made / "good") if on else None, splice_to=str(tmp_path / "control"))
    sock = node.raw(first)
    node.until(lambda: node.refused)
    assert "a peer speaks no TLS" in node.refused[0] if on else "a peer speaks TLS" in node.refused[0]
    sock.close()


def test_other_protocols_in_tls_are_spliced(made, start, tmp_path):
    control = socket.socket(socket.AF_UNIX)
    control.bind(str(tmp_path / "control"))
    control.listen(1)
    node = start(credentials(made / "good"), splice_to=str(tmp_path / "control"))
    sock = node.raw(b"\x16\x03\x01\x02\x00")
    inner = node.beside(lambda: control.accept()[0])
    assert node.beside(lambda: inner.recv(5)) == b"\x16\x03\x01\x02\x00"
    for one in (sock, inner, control):
        one.close()


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_that_can_not_be_used_are_named(made, tmp_path):
    with pytest.raises(OptionError, match=r"nowhere/node.pem can't be read; `kernel certificates create .*nowhere`"):
        credentials(tmp_path / "nowhere")
    shutil.copytree(made / "good", tmp_path / "mine")
    os.chmod(tmp_path / "mine" / "node.key", 0o644)
    with pytest.raises(OptionError, match="can be read by everybody; run: chmod 600 .*node.key"):
        credentials(tmp_path / "mine")
    os.chmod(tmp_path / "mine" / "node.key", 0o600)
    shutil.copy(made / "stranger" / "node.pem", tmp_path / "mine" / "node.pem")
    with pytest.raises(OptionError, match="node.pem and .*node.key are no certificate and its key .*mismatch"):
        credentials(tmp_path / "mine")
    (tmp_path / "mine" / "ca.pem").write_text("noise")
    with pytest.raises(OptionError, match="ca.pem is not a certificate of an authority in PEM form"):
        credentials(tmp_path / "mine")


def test_files_of_one_s_own_may_be_given_by_their_paths(made, start):
    directory = made / "good"
    files = TlsFiles(str(directory / "node.pem"), str(directory / "node.key"), str(directory / "ca.pem"))
    tls = Credentials(files)
    node = start(tls)
    connection = node.connect("agent", tls=tls)
    connection.send((1, "hello"))
    node.until(lambda: node.incoming)
    connection.close()
