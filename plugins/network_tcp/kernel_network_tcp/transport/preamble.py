"""The first bytes of a TCP connection: the target, before anything is proved. 37 bytes, more where there is a route.

    magic       4   b"KRN1"
    kind        1   1: the token handshake follows, 2: TLS follows, and the handshake inside it
    target     32   the name of the target, filled up with zeros

For a target behind a relay, the relay is asked; the bytes after that are passed to the other end, unread:

    magic       4   b"KRN1"
    kind        1   3
    proof      32   a keyed digest of the route: a relay serves only holders of the token
    length      1
    route           so many bytes: the target behind the relay

A process that can't be dialled dials back, and shows a ticket that only the relay can have given to it:

    magic       4   b"KRN1"
    kind        1   4
    ticket     32   random bytes

A peer that can't be served is answered with REFUSED and one byte for the reason, or not at all. Both bytes are sent
twice: where TLS is about to begin, OpenSSL may read five bytes for the header of its first record before we look.
"""

from __future__ import annotations

import errno
import hmac

from kernel_processes.transport.addresses import LONGEST_TARGET, NOBODY, TcpAddress
from kernel_spec.errors import ProtocolError

MAGIC = b"KRN1"
PLAIN = 1
SECURED = 2
RELAYED = 3
CALLED_BACK = 4
_KIND = len(MAGIC)
_BODY = _KIND + 1
LENGTH = _BODY + LONGEST_TARGET
TICKET_BYTES = 32
_PURPOSE = b"kernel relay to "

REFUSED = b"KRN!"
TLS_NEEDED = 1
NO_TLS = 2
NOT_HERE = 3
WRONG_TOKEN = 4
UNREACHABLE = 5
CLOSED = 6
_ANSWERS = (len(REFUSED) + 1, 2 * (len(REFUSED) + 1))
_REASONS = {
    TLS_NEEDED: "its gateway speaks TLS only: switch TLS on here too, with a certificate of the same authority",
    NO_TLS: "its gateway speaks no TLS: switch TLS on there too, or off here",
    NOT_HERE: f"{NOBODY}; a process that was has ended",
    WRONG_TOKEN: "it has another session token",
    UNREACHABLE: "the relay can't reach it",
    CLOSED: "the relay can't reach it: Connection refused",
}
_ERRORS = {UNREACHABLE: errno.EHOSTUNREACH, CLOSED: errno.ECONNREFUSED}


def preamble(target: str, secured: bool) -> bytes:
    """Return the first bytes to send on a connection to `target`."""
    return MAGIC + bytes([SECURED if secured else PLAIN]) + target.encode("ascii").ljust(LONGEST_TARGET, b"\0")


def opening(address: TcpAddress, secured: bool, token: bytes) -> bytes:
    """Return the first bytes to send on a connection that is to lead to `address`, by its relay if it has one."""
    inner = preamble(address.target, secured)
    if not address.route:
        return inner
    route = address.route.encode()
    return MAGIC + bytes([RELAYED]) + _proof(route, token) + bytes([len(route)]) + route + inner


def calling_back(ticket: bytes) -> bytes:
    """Return the first bytes of a connection that dials back for a `ticket`."""
    return MAGIC + bytes([CALLED_BACK]) + ticket


def needed(data: bytes) -> int:
    """Return how many bytes the preamble has that begins with `data`, as far as can be known."""
    if len(data) < LENGTH or data[_KIND] != RELAYED:
        return LENGTH
    return LENGTH + 1 if len(data) == LENGTH else LENGTH + 1 + data[LENGTH]


def kind_of(data: bytes) -> int:
    """Return the kind of a whole preamble. Raises ProtocolError when `data` is no preamble."""
    if not data.startswith(MAGIC) or len(data) != needed(data) or data[_KIND] not in (
        PLAIN, SECURED, RELAYED, CALLED_BACK,
    ):  # fmt: skip
        raise ProtocolError("a connection began with a preamble that can't be read")
    return data[_KIND]


def parse_preamble(data: bytes) -> tuple[str, bool]:
    """Return the target and whether TLS follows. Raises ProtocolError when `data` is no preamble that has a target."""
    kind, name = kind_of(data), data[_BODY:].rstrip(b"\0")
    if kind not in (PLAIN, SECURED) or not name.isascii():
        raise ProtocolError("a connection began with a preamble that can't be read")
    return name.decode("ascii"), kind == SECURED


def parse_route(data: bytes, token: bytes) -> str:
    """Return the route of a whole preamble to a relay. Raises ProtocolError unless its sender has the token."""
    route = data[LENGTH + 1 :]
    if not hmac.compare_digest(data[_BODY:LENGTH], _proof(route, token)):
        raise ProtocolError("a peer that has another session token asked to be relayed")
    try:
        return route.decode("ascii")
    except UnicodeDecodeError as error:
        raise ProtocolError("a peer asked to be relayed to a route that can't be read") from error


def parse_ticket(data: bytes) -> bytes:
    """Return the ticket of a whole preamble that dials back."""
    return data[_BODY:]


def refusal(reason: int) -> bytes:
    """Return the answer to a peer that can't be served."""
    return 2 * (REFUSED + bytes([reason]))


def refusal_of(data: bytes) -> OSError | None:
    """Return the refusal in `data`, which arrived during the handshake, as an error; None if there is no refusal.

    Its number is EHOSTUNREACH or ECONNREFUSED where a relay could not reach the other side, else EPROTO.
    """
    if len(data) not in _ANSWERS or not data.startswith(REFUSED):
        return None
    return OSError(_ERRORS.get(data[-1], errno.EPROTO), _REASONS.get(data[-1], "it refuses the connection"))


def refusal_text(data: bytes) -> str:
    """Return why the other side refuses, or "" if `data`, which arrived during the handshake, is no refusal."""
    error = refusal_of(data)
    return error.strerror or "" if error is not None else ""


def _proof(route: bytes, token: bytes) -> bytes:
    return hmac.digest(token, _PURPOSE + route, "sha256")
