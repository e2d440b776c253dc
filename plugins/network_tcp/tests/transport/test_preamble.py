"""The first bytes of a connection: whom it is for, by which relay, and the refusals that answer them."""

from __future__ import annotations

import errno

import pytest
from kernel_network_tcp.transport.preamble import (
    CALLED_BACK,
    LENGTH,
    NO_TLS,
    RELAYED,
    TLS_NEEDED,
    UNREACHABLE,
    calling_back,
    kind_of,
    needed,
    opening,
    parse_preamble,
    parse_route,
    parse_ticket,
    preamble,
    refusal,
    refusal_of,
    refusal_text,
)

from kernel_processes.transport.addresses import TcpAddress
from kernel_spec.errors import ProtocolError

TOKEN = b"t" * 32
CLIENT = "0123456789abcdef"


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


@pytest.mark.parametrize("route", [CLIENT, "10.0.0.2:7000", "a" * 250 + ":1"])
def test_a_relay_reads_the_route_and_leaves_the_rest(route):
    address = TcpAddress("head", 1, "agent", route)
    data = opening(address, False, TOKEN)
    length = len(data) - LENGTH
    for end in range(length):
        assert needed(data[:end]) > end, "it wants more, and never more than there is"
        assert needed(data[:end]) <= length
    assert needed(data[:length]) == length
    assert kind_of(data[:length]) == RELAYED
    assert parse_route(data[:length], TOKEN) == route
    assert data[length:] == preamble("agent", False)


def test_who_has_no_token_is_not_relayed():
    data = opening(TcpAddress("head", 1, "agent", CLIENT), False, b"u" * 32)[:-LENGTH]
    with pytest.raises(ProtocolError, match="another session token asked to be relayed"):
        parse_route(data, TOKEN)
    good = opening(TcpAddress("head", 1, "agent", CLIENT), False, TOKEN)[:-LENGTH]
    elsewhere = good.replace(CLIENT.encode(), b"f" * 16)
    with pytest.raises(ProtocolError, match="another session token asked to be relayed"):
        parse_route(elsewhere, TOKEN)  # a proof is for one route


def test_a_preamble_without_a_route_is_as_it_was():
    assert opening(TcpAddress("head", 1, "agent"), True, TOKEN) == preamble("agent", True)


def test_a_ticket_is_a_preamble_of_its_own():
    data = calling_back(b"x" * 32)
    assert (len(data), kind_of(data), parse_ticket(data)) == (LENGTH, CALLED_BACK, b"x" * 32)
    with pytest.raises(ProtocolError, match="preamble"):
        parse_preamble(data)


def test_a_refusal_tells_what_may_come_right():
    assert refusal_of(b"anything") is None
    error = refusal_of(refusal(UNREACHABLE))
    assert (error.errno, error.strerror) == (errno.EHOSTUNREACH, "the relay can't reach it")
    assert refusal_of(refusal(TLS_NEEDED)).errno == errno.EPROTO
