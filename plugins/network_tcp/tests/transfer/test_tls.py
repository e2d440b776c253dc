"""Object transfer inside TLS: the same bytes, and what the socket's own buffer holds is not forgotten."""

from __future__ import annotations

import os
import socket
import ssl
from pathlib import Path

from kernel_network_tcp.transfer import protocol
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_store_plasma import PlasmaStore

from kernel.testing.transfer_node import TransferNode
from kernel_spec.ids import ObjectId

NAME = ObjectId(b"object-of-20-bytes--")
CHUNK = 1 << 16
LIMITS = TransferLimits(chunk_bytes=CHUNK, stall_seconds=600.0)
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJ63daf7Tr3ZPtHjo
meOJ3EwBDJFvg9H1DrsKbANn6uOhRANCAAQUOFwkXxAN+rwqN3E/Trvhuk+PT24L
yXoR1mhC6iHBp5exaOO+DcJIry5KP6/b1yyNDUOq65QNFDIwr/EBp5zo
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBkDCCATagAwIBAgIUTuTOCjWnd0Cxf/FuWW9jDKAH8CMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTIyNDIxNVoYDzIxMjYxMDI4
MjI0MjE1WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQUOFwkXxAN+rwqN3E/Trvhuk+PT24LyXoR1mhC6iHBp5exaOO+DcJI
ry5KP6/b1yyNDUOq65QNFDIwr/EBp5zoo2QwYjAdBgNVHQ4EFgQUtnMtUfrKCixD
blqAQPkFjvp3QiowHwYDVR0jBBgwFoAUtnMtUfrKCixDblqAQPkFjvp3QiowDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0gAMEUC
IQDj+Tb9k9qMqhmkmFjxam/eGX4MNPtOqMdjv5HHBuBh6QIgJQjEJf3Tlfv8ViJ9
GXGMVvdNjDH3eO5x1t59OIvQPWc=
-----END CERTIFICATE-----
"""
"""Made for this test, of a key that nobody uses."""


class Tls:
    """Both sides' contexts."""

    def __init__(self, directory: Path) -> None:
        path = directory / "certificate.pem"
        path.write_text(CERTIFICATE)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(path)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client.check_hostname = False  # who is who is not what is tested here
        self.client.verify_mode = ssl.CERT_NONE

    def wrap(self, sock: socket.socket, server: bool) -> socket.socket:
        if server:
            return self.server.wrap_socket(sock, server_side=True)
        return self.client.wrap_socket(sock)


def test_an_object_comes_through_tls(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    with (
        TransferNode(PlasmaStore(), 1 << 24, str(tmp_path), LIMITS, tls.wrap) as a,
        TransferNode(PlasmaStore(), 1 << 24, str(tmp_path), LIMITS, tls.wrap) as b,
        TransferNode(PlasmaStore(), 1 << 24, str(tmp_path), LIMITS, tls.wrap) as c,
    ):
        data = os.urandom(100 * CHUNK + 1)
        a.put(NAME, data)
        pulls = [b.pull(NAME, len(data), [a.address]), c.pull(NAME, len(data), [b.address, a.address])]
        for pull in pulls:
            pull.result(120)
        assert b.read(NAME) == data == c.read(NAME)


def test_requests_that_came_in_one_record_are_both_heard(tmp_path: Path) -> None:
    tls = Tls(tmp_path)
    with TransferNode(PlasmaStore(), 1 << 24, str(tmp_path), LIMITS, tls.wrap) as a:
        a.put(NAME, bytes(2 * CHUNK))
        wants = [protocol.Want(NAME, 2 * CHUNK, start, CHUNK, 0.1, "me") for start in (0, CHUNK)]
        ends = [protocol.encode_request(protocol.WantNoMore(NAME, "nobody", False))] * 10
        with a.connect(a.address) as sock:
            for want in wants:
                sock.sendall(b"".join([*ends, protocol.encode_request(want)]))
                received = 0
                while received < protocol.ANSWER_BYTES + CHUNK:
                    data = sock.recv(CHUNK)
                    assert data, "the connection was closed"
                    received += len(data)
