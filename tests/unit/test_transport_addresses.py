"""Addresses say where and whom; what is none is refused with an example of one."""

from __future__ import annotations

import pytest

from kernel.transport.addresses import (
    TcpAddress,
    format_host_and_port,
    is_tcp,
    parse_host_and_port,
    parse_tcp,
    process_address,
)
from kernel.transport.preamble import LENGTH, NO_TLS, TLS_NEEDED, parse_preamble, preamble, refusal, refusal_text
from kernel_spec.errors import OptionError, ProtocolError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tcp://127.0.0.1:80/agent", ("127.0.0.1", 80, "agent")),
        ("tcp://head.example:6400/0123456789abcdef", ("head.example", 6400, "0123456789abcdef")),
        ("tcp://[::1]:6400/transfer", ("::1", 6400, "transfer")),
        ("tcp://[fe80::1%eth0]:1/head", ("fe80::1%eth0", 1, "head")),
    ],
)
def test_an_address_is_read_and_written_the_same(text, parts):
    address = parse_tcp(text)
    assert (address.host, address.port, address.target) == parts
    assert str(address) == text
    assert is_tcp(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no address: expected tcp://HOST:PORT/TARGET"),
        ("/tmp/agent.sock", "is no address: expected tcp://HOST:PORT/TARGET"),
        ("tcp://127.0.0.1:80", "where TARGET is a process id in hexadecimal"),
        ("tcp://127.0.0.1:80/", "where TARGET is a process id in hexadecimal"),
        ("tcp://127.0.0.1:80/a/../b", "is no address"),
        ("tcp://127.0.0.1:80/" + "a" * 33, "at most 32 small letters"),
        ("tcp://127.0.0.1/agent", "'127.0.0.1' is no place to connect to: expected HOST:PORT"),
        ("tcp://127.0.0.1:99999/agent", "with a port of at most 65535"),
        ("tcp://::1:80/agent", "IPv6 addresses in brackets"),
        ("tcp://a b:80/agent", "is no place to connect to"),
    ],
)
def test_what_is_no_address_is_refused_with_a_word_on_what_is(text, complaint):
    with pytest.raises(OptionError) as caught:
        parse_tcp(text)
    assert complaint in str(caught.value)


def test_hosts_and_ports():
    assert parse_host_and_port("[::1]:5") == ("::1", 5)
    assert format_host_and_port("::1", 5) == "[::1]:5"
    assert format_host_and_port("a", 5) == "a:5"
    assert process_address("a:5", b"\x01" * 8) == str(TcpAddress("a", 5, "01" * 8))


def test_a_preamble_is_of_one_length_and_says_whom_it_is_for():
    for target in ("a", "agent", "f" * 32):
        for secured in (False, True):
            data = preamble(target, secured)
            assert len(data) == LENGTH == 37
            assert parse_preamble(data) == (target, secured)


@pytest.mark.parametrize(
    "data", [b"KRN2" + b"\1" + b"a" * 32, b"KRN1" + b"\7" + b"a" * 32, b"KRN1\1agent", b"KRN1\1" + b"\xff" * 32]
)
def test_a_preamble_that_cannot_be_read_is_refused(data):
    with pytest.raises(ProtocolError, match="preamble"):
        parse_preamble(data)


def test_refusals_say_why():
    assert "speaks TLS only" in refusal_text(refusal(TLS_NEEDED))
    assert "speaks no TLS" in refusal_text(refusal(NO_TLS))
    assert refusal_text(b"KRN!\xff") == "it refuses the connection"
    assert refusal_text(b"kernel\0\1") == refusal_text(b"KRN!") == refusal_text(b"KRN!" + b"\1" * 28) == ""
