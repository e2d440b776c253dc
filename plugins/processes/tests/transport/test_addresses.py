"""Addresses say where and whom; what is none is refused with an example of one."""

from __future__ import annotations

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
from kernel_spec.errors import OptionError


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
