"""Prove knowledge of the session token without sending it.

Both sides send a fresh nonce and a keyed digest over both nonces, so a recorded handshake can't be played again
and an impostor learns nothing. Messages have fixed lengths and nothing is interpreted before the digest was
checked:

    server -> client   MAGIC, server nonce                                     24 bytes
    client -> server   MAGIC, client nonce, digest("client", both nonces)      56 bytes
    server -> client   digest("server", both nonces)                           32 bytes
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable

from kernel_spec.errors import ProtocolError

MAGIC = b"kernel\x00\x01"
_NONCE = 16
_DIGEST = 32
_TOKEN = 32
TOKEN_VARIABLE = "KERNEL_TOKEN"
"""The variable by which a command may be given the token; no process that it starts inherits the variable."""


def make_token() -> bytes:
    """Return a new session token (32 random bytes)."""
    return os.urandom(_TOKEN)


def write_token(path: str | os.PathLike[str], token: bytes) -> None:
    """Write the token to a new file that only its user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token.hex())


def parse_token(text: str) -> bytes:
    """Return the token that is written as `text`. Raises ValueError, which does not show it, when it is malformed."""
    try:
        token = bytes.fromhex(text.strip())
    except ValueError:
        token = b""
    if len(token) != _TOKEN:
        raise ValueError(f"a token has {2 * _TOKEN} hexadecimal digits")
    return token


def read_token(path: str | os.PathLike[str]) -> bytes:
    """Return the token in `path`; raises ProtocolError when others could read it, or when it is malformed."""
    if os.stat(path).st_mode & 0o077:
        raise ProtocolError(f"the token file {path} can be read by others; run: chmod 600 {path}")
    try:
        with open(path) as file:
            return parse_token(file.read())
    except ValueError:
        raise ProtocolError(
            f"the token file {path} is damaged, it must hold {2 * _TOKEN} hexadecimal digits; "
            f"end its session with: kernel stop --force {os.path.basename(os.path.dirname(path))}"
        ) from None


class Handshake:
    """Runs one side of the proof: takes the bytes that arrive, and returns bytes to send and, at the end, the rest."""

    def __init__(self, token: bytes, server: bool, random: Callable[[int], bytes] = os.urandom) -> None:
        self._token = token
        self.server = server
        self._mine = random(_NONCE)
        self._theirs = b""
        self._received = bytearray()
        self.done = False

    def start(self) -> bytes:
        """Return the first bytes to send (none for a client)."""
        return MAGIC + self._mine if self.server else b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes in and return bytes to send. Raises ProtocolError when the peer is not one of ours."""
        self._received += data
        if self.done:
            return b""
        if not MAGIC.startswith(self._received[: len(MAGIC)]) and not self._theirs:
            raise ProtocolError("the peer does not speak this protocol")
        if self.server:
            return self._feed_server()
        return self._feed_client()

    def rest(self) -> bytes:
        """Return the bytes that arrived after the handshake."""
        return bytes(self._received)

    def _feed_server(self) -> bytes:
        if len(self._received) < len(MAGIC) + _NONCE + _DIGEST:
            return b""
        self._check_magic()
        self._theirs = self._take(_NONCE)
        expected = self._digest(b"client", self._mine, self._theirs)
        if not hmac.compare_digest(expected, self._take(_DIGEST)):
            raise ProtocolError("the peer has a wrong session token")
        self.done = True
        return self._digest(b"server", self._mine, self._theirs)

    def _feed_client(self) -> bytes:
        if not self._theirs:
            if len(self._received) < len(MAGIC) + _NONCE:
                return b""
            self._check_magic()
            self._theirs = self._take(_NONCE)
            return MAGIC + self._mine + self._digest(b"client", self._theirs, self._mine)
        if len(self._received) >= _DIGEST:
            if not hmac.compare_digest(self._digest(b"server", self._theirs, self._mine), self._take(_DIGEST)):
                raise ProtocolError("the server has a wrong session token")
            self.done = True
        return b""

    def _check_magic(self) -> None:
        if self._take(len(MAGIC)) != MAGIC:
            raise ProtocolError("the peer does not speak this protocol")

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _digest(self, role: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
        return hmac.digest(self._token, role + server_nonce + client_nonce, "sha256")
