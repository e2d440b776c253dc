"""The first bytes of a TCP connection: who is meant, before anything is proved. 37 bytes, always.

    magic       4   b"KRN1"
    kind        1   1: the token handshake follows, 2: TLS follows, and the handshake inside it
    target     32   the name of the target, filled up with zeros

Who can't be served is answered with REFUSED and one byte that says why, or not at all. Both are said twice: where TLS
is about to begin, OpenSSL may read five bytes for the head of its first record before we look at them.
"""

from __future__ import annotations

from kernel.transport.addresses import LONGEST_TARGET
from kernel_spec.errors import ProtocolError

MAGIC = b"KRN1"
PLAIN = 1
SECURED = 2
LENGTH = len(MAGIC) + 1 + LONGEST_TARGET

REFUSED = b"KRN!"
TLS_NEEDED = 1
NO_TLS = 2
NOT_HERE = 3
WRONG_TOKEN = 4
_ANSWERS = (len(REFUSED) + 1, 2 * (len(REFUSED) + 1))
NOBODY = "nobody of that name is there"
_REASONS = {
    TLS_NEEDED: "its gateway speaks TLS only: switch TLS on here too, with a certificate of the same authority",
    NO_TLS: "its gateway speaks no TLS: switch TLS on there too, or off here",
    NOT_HERE: f"{NOBODY}; a process that was has ended",
    WRONG_TOKEN: "it has another session token",
}


def preamble(target: str, secured: bool) -> bytes:
    """Return the first bytes to send on a connection to `target`."""
    return MAGIC + bytes([SECURED if secured else PLAIN]) + target.encode("ascii").ljust(LONGEST_TARGET, b"\0")


def parse_preamble(data: bytes) -> tuple[str, bool]:
    """Return the target and whether TLS follows. Raises ProtocolError when `data` is no preamble."""
    kind, name = data[len(MAGIC)], data[len(MAGIC) + 1 :].rstrip(b"\0")
    if not data.startswith(MAGIC) or len(data) != LENGTH or kind not in (PLAIN, SECURED) or not name.isascii():
        raise ProtocolError("a connection began with a preamble that can't be read")
    return name.decode("ascii"), kind == SECURED


def refusal(reason: int) -> bytes:
    """Return what is answered to somebody who can't be served."""
    return 2 * (REFUSED + bytes([reason]))


def refusal_text(data: bytes) -> str:
    """Return why the other side refuses, or "" if `data`, which arrived during the handshake, is no refusal."""
    if len(data) not in _ANSWERS or not data.startswith(REFUSED):
        return ""
    return _REASONS.get(data[-1], "it refuses the connection")
