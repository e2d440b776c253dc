"""Addresses say where and whom; what is none is refused with an example of one."""

from __future__ import annotations

import errno

import pytest

from kernel_processes.transport.addresses import (
    TcpAddress,
    format_host_and_port,
    gateway_of,
    is_relayed,
    is_tcp,
    parse_host_and_port,
    parse_tcp,
    place_of,
    process_address,
    through,
)
from kernel_processes.transport.preamble import (
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


# -- by way of a relay -------------------------------------------------------------------------------------------------

CLIENT = "0123456789abcdef"


@pytest.mark.parametrize("route", [CLIENT, "10.0.0.2:7000", "[::1]:7000", "node.example:1"])
def test_an_address_may_lead_by_way_of_a_relay(route):
    text = f"tcp://head.example:6380~{route}/agent"
    address = parse_tcp(text)
    assert (address.host, address.port, address.target, address.route) == ("head.example", 6380, "agent", route)
    assert str(address) == text
    assert place_of(text) == gateway_of(text) == address.place == f"head.example:6380~{route}"
    assert is_relayed(place_of(text)) and not is_relayed("head.example:6380")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcp://a:1~/agent", "'' is no place to connect to"),
        ("tcp://a:1~nowhere/agent", "'nowhere' is no place to connect to"),
        (f"tcp://a:1~{CLIENT}0/agent", "is no place to connect to"),
        ("tcp://a~b:1/agent", "'a' is no place to connect to"),
        (f"tcp://a:1~b:2~{CLIENT}/agent", "is no place to connect to"),
        (f"tcp://a:1~{'b' * 255}:2/agent", "is longer than the 255 characters that a relay takes"),
    ],
)
def test_a_route_that_cannot_be_is_refused(text, complaint):
    with pytest.raises(OptionError) as caught:
        parse_tcp(text)
    assert complaint in str(caught.value)


def test_everything_leads_through_the_one_relay_that_is_known():
    relay = "203.0.113.5:6380"
    assert through(relay, "tcp://10.0.0.2:7000/agent") == f"tcp://{relay}~10.0.0.2:7000/agent"
    behind = f"tcp://10.0.0.1:6380~{CLIENT}/transfer"
    assert through(relay, behind) == f"tcp://{relay}~{CLIENT}/transfer"
    assert through(relay, through(relay, behind)) == through(relay, behind)
    assert through(relay, "/tmp/agent.sock") == "/tmp/agent.sock"
    assert through("", behind) == behind


TOKEN = b"t" * 32


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
