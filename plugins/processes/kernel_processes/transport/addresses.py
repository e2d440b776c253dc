"""Addresses of processes, as one string: a UNIX path on this machine, or `tcp://HOST:PORT/TARGET` on any.

HOST is a name or a number (IPv6 in brackets), PORT is that of a node's gateway, and TARGET names the process behind
the gateway: a process by its id in hexadecimal, or a service by a word.

A process that can't be reached directly is reached through a relay: `tcp://HOST:PORT~ROUTE/TARGET`. HOST:PORT is the
head's gateway, and ROUTE is what lies behind it: the gateway of a node ("HOST:PORT"), or the id in hexadecimal of a
remote driver's agent, which can't be dialled.
"""

from __future__ import annotations

import re

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.ids import ProcessId

SCHEME = "tcp://"
AGENT = "agent"
HEAD = "head"
TRANSFER = "transfer"
RELAY = "relay"
LONGEST_TARGET = 32
"""Maximum number of characters of a target, which is sent in a preamble of fixed length."""

NOBODY = "nobody of that name is there"
"""Part of the reason for a connection's end, when its place answers but does not have the target."""

VIA = "~"
"""Separates a relay from the route behind it."""
LONGEST_ROUTE = 255
"""Maximum number of characters of a route, whose length is sent in one byte."""

_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/~\[\]]+)):(?P<port>[0-9]{1,5})")
_CLIENT = re.compile(r"[0-9a-f]{16}")
_TARGET = re.compile(rf"[a-z0-9_-]{{1,{LONGEST_TARGET}}}")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Identifies a target behind a gateway, or behind a relay and a route; `str` returns it as it is written."""

    host: str
    port: int
    target: str
    route: str = ""

    @property
    def place(self) -> str:
        """The place: the gateway, with the route behind it if there is one."""
        gateway = format_host_and_port(self.host, self.port)
        return f"{gateway}{VIA}{self.route}" if self.route else gateway

    def __str__(self) -> str:
        return f"{SCHEME}{self.place}/{self.target}"


def is_tcp(address: str) -> bool:
    """Return whether `address` is a TCP address, rather than a path."""
    return address.startswith(SCHEME)


def parse_tcp(address: str) -> TcpAddress:
    """Return the parts of a `tcp://` address. Raises OptionError when it is malformed."""
    place, _, target = address.removeprefix(SCHEME).partition("/")
    if not is_tcp(address) or not _TARGET.fullmatch(target):
        raise OptionError(
            f"{address!r} is no address: expected tcp://HOST:PORT/TARGET, where TARGET is a process id in hexadecimal "
            f"or a word such as {AGENT!r} (at most {LONGEST_TARGET} small letters, digits, '_' and '-')"
        )
    gateway, via, route = place.partition(VIA)
    host, port = parse_host_and_port(gateway)
    if via and not is_client(route):
        parse_host_and_port(route)
    if len(route) > LONGEST_ROUTE:
        raise OptionError(f"the route in {address!r} is longer than the {LONGEST_ROUTE} characters that a relay takes")
    return TcpAddress(host, port, target, route)


def place_of(address: str) -> str:
    """Return the place (a gateway, "HOST:PORT", with its route if it has one) of a `tcp://` address.

    Raises OptionError when it is malformed.
    """
    return parse_tcp(address).place


def is_client(route: str) -> bool:
    """Return whether a route leads to the agent of a remote driver, rather than to a gateway."""
    return _CLIENT.fullmatch(route) is not None


def is_relayed(place: str) -> bool:
    """Return whether a place, or an address, is reached by way of a relay only."""
    return VIA in place


def through(relay: str, address: str) -> str:
    """Return the address by which `address` is reached through `relay` ("HOST:PORT").

    Paths stay as they are, and with a `relay` of "" all addresses do. An address that is behind a
    relay already is behind that of the same head, whatever place it names.
    """
    if not relay or not is_tcp(address):
        return address
    parsed = parse_tcp(address)
    return f"{SCHEME}{relay}{VIA}{parsed.route or parsed.place}/{parsed.target}"


def process_address(gateway: str, process: ProcessId) -> str:
    """Return the address of `process` behind the gateway at `gateway` ("HOST:PORT")."""
    return f"{SCHEME}{gateway}/{process.hex()}"


def is_place(text: str) -> bool:
    """Return whether `text` is "HOST:PORT"."""
    return _HOST_AND_PORT.fullmatch(text) is not None


def gateway_of(address: str) -> str:
    """Return the place of an address, "" for a path."""
    return address.removeprefix(SCHEME).partition("/")[0] if is_tcp(address) else ""


def parse_host_and_port(text: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT" or "[IPv6]:PORT". Raises OptionError when it is neither."""
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise OptionError(
            f"{text!r} is no place to connect to: expected HOST:PORT, with a port of at most 65535 and IPv6 addresses "
            "in brackets, for example 10.0.0.1:6400, head.example:6400 or [::1]:6400"
        )
    return match["six"] or match["host"], int(match["port"])


def format_host_and_port(host: str, port: int) -> str:
    """Return "HOST:PORT", with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
