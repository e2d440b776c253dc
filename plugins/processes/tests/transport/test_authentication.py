"""The proof of the session token: who is let in, and what strangers learn (nothing)."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel_processes.transport.authentication import MAGIC, Handshake, make_token, read_token, write_token
from kernel_spec.errors import ProtocolError

TOKEN = b"t" * 32
CLIENT_BYTES = 56
SERVER_BYTES = 24


def pair(client_token=TOKEN, server_token=TOKEN):
    return Handshake(client_token, server=False), Handshake(server_token, server=True)


def converse(client, server):
    """Let both talk until nothing is left to say; return everything each of them said."""
    to_client, to_server = server.start(), client.start()
    said = {"client": to_server, "server": to_client}
    while to_client or to_server:
        to_server = client.feed(to_client) if to_client else b""
        to_client = server.feed(to_server) if to_server else b""
        said["client"] += to_server
        said["server"] += to_client
    return said


def test_equal_tokens_let_both_in():
    client, server = pair()
    said = converse(client, server)
    assert client.done and server.done
    assert len(said["client"]) == CLIENT_BYTES
    assert len(said["server"]) == SERVER_BYTES + 32
    assert TOKEN not in said["client"] + said["server"]


@settings(deadline=None)
@example(cuts=[1, 31], rest=bytes(32))  # what follows a proof may look like one
@given(cuts=st.lists(st.integers(1, 40), max_size=30), rest=st.binary(max_size=100))
def test_it_works_however_the_bytes_are_split(cuts, rest):
    client, server = pair()

    def feed(side, data):
        answer = b""
        for cut in cuts:
            if len(data) > cut:
                answer += side.feed(data[:cut])
                data = data[cut:]
        return answer + side.feed(data)

    proof = feed(client, server.start())
    answer = feed(server, proof + rest)
    assert server.done
    assert server.rest() == rest
    feed(client, answer + rest)
    assert client.done
    assert client.rest() == rest


def test_a_wrong_token_of_the_client():
    client, server = pair(client_token=b"x" * 32)
    with pytest.raises(ProtocolError, match="the peer has a wrong session token"):
        converse(client, server)
    assert not server.done


def test_an_impostor_of_a_server():
    client, server = pair()
    proof = client.feed(server.start())
    with pytest.raises(ProtocolError, match="the server has a wrong session token"):
        client.feed(b"\0" * 32)
    assert len(proof) == CLIENT_BYTES
    assert not client.done


def test_a_recorded_proof_is_worth_nothing():
    client, server = pair()
    said = converse(client, server)
    _, another = pair()
    another.start()
    with pytest.raises(ProtocolError, match="wrong session token"):
        another.feed(said["client"])


def test_a_recorded_server_is_worth_nothing():
    client, server = pair()
    said = converse(client, server)
    another, _ = pair()
    another.feed(said["server"][:SERVER_BYTES])
    with pytest.raises(ProtocolError, match="wrong session token"):
        another.feed(said["server"][SERVER_BYTES:])
    assert not another.done


def test_a_proof_does_not_pass_as_the_other_sides():
    """What a server says can't be sent back to it: the digests name who speaks."""
    client, server = pair()
    greeting = server.start()
    proof = client.feed(greeting)
    answer = server.feed(proof)
    _, second = pair()
    second.start()
    with pytest.raises(ProtocolError):
        second.feed(MAGIC + proof[len(MAGIC) : len(MAGIC) + 16] + answer)


@settings(deadline=None)
@given(noise=st.binary(min_size=1, max_size=200))
def test_noise_is_refused_and_answered_with_nothing(noise):
    for server in (True, False):
        side = Handshake(TOKEN, server=server)
        side.start()
        try:
            answer = side.feed(noise)
        except ProtocolError:
            continue
        assert not side.done
        assert not answer or (not server and noise.startswith(MAGIC))


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"\0" * 56, MAGIC[:3] + b"?"])
def test_other_protocols_are_refused_at_their_first_bytes(first):
    server = Handshake(TOKEN, server=True)
    with pytest.raises(ProtocolError, match="does not speak this protocol"):
        server.feed(first)


@settings(deadline=None)
@given(position=st.integers(0, CLIENT_BYTES - 1), bit=st.integers(0, 7))
def test_every_bit_of_a_proof_counts(position, bit):
    client, server = pair()
    proof = bytearray(client.feed(server.start()))
    proof[position] ^= 1 << bit
    with pytest.raises(ProtocolError):
        server.feed(bytes(proof))


def test_tokens_are_random_and_private(tmp_path):
    assert make_token() != make_token()
    assert len(make_token()) == 32
    path = tmp_path / "token"
    token = make_token()
    write_token(path, token)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert read_token(path) == token
    with pytest.raises(FileExistsError):
        write_token(path, token)


def test_a_token_that_others_can_read_is_not_used(tmp_path):
    path = tmp_path / "token"
    write_token(path, make_token())
    path.chmod(0o640)
    with pytest.raises(ProtocolError, match="can be read by others; run: chmod 600"):
        read_token(path)


@pytest.mark.parametrize("text", [b"", b"no digits", b"\xff\xfe", b"ab" * 31, b"ab" * 33])
def test_a_damaged_token_says_so(tmp_path, text):
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(ProtocolError, match=f"token is damaged.* kernel stop --force {tmp_path.name}$"):
        read_token(path)
