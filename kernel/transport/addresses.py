"""Where somebody listens, as one string: a UNIX path on this machine, or `tcp://HOST:PORT/TARGET` on any.

HOST is a name or a number (IPv6 in brackets), PORT that of a node's gateway, and TARGET says who behind the gateway
is meant: a process by its id in hexadecimal, or a service by a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernel_spec.errors import OptionError
from kernel_spec.ids import ProcessId

SCHEME = "tcp://"
AGENT = "agent"
HEAD = "head"
TRANSFER = "transfer"
LONGEST_TARGET = 32
"""Targets have at most so many characters: they travel in a preamble of fixed length."""

_HOST_AND_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_TARGET = re.compile(rf"[a-z0-9_-]{{1,{LONGEST_TARGET}}}")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """One target behind one gateway; `str` gives it back as it is written."""

    host: str
    port: int
    target: str

    def __str__(self) -> str:
        return f"{SCHEME}{format_host_and_port(self.host, self.port)}/{self.target}"


def is_tcp(address: str) -> bool:
    """Return whether `address` leads over TCP; what does not is a path."""
    return address.startswith(SCHEME)


def parse_tcp(address: str) -> TcpAddress:
    """Return the parts of a `tcp://` address. Raises OptionError when it is none."""
    place, _, target = address.removeprefix(SCHEME).partition("/")
    if not is_tcp(address) or not _TARGET.fullmatch(target):
        raise OptionError(
            f"{address!r} is no address: expected tcp://HOST:PORT/TARGET, where TARGET is a process id in hexadecimal "
            f"or a word such as {AGENT!r} (at most {LONGEST_TARGET} small letters, digits, '_' and '-')"
        )
    host, port = parse_host_and_port(place)
    return TcpAddress(host, port, target)


def place_of(address: str) -> str:
    """Return the gateway ("HOST:PORT") of a `tcp://` address. Raises OptionError when it is none."""
    parsed = parse_tcp(address)
    return format_host_and_port(parsed.host, parsed.port)


def process_address(gateway: str, process: ProcessId) -> str:
    """Return the address of `process` behind the gateway at `gateway` ("HOST:PORT")."""
    return f"{SCHEME}{gateway}/{process.hex()}"


def is_place(text: str) -> bool:
    """Return whether `text` is "HOST:PORT"."""
    return _HOST_AND_PORT.fullmatch(text) is not None


def gateway_of(address: str) -> str:
    """Return the gateway ("HOST:PORT") that an address leads over, nothing for a path."""
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
