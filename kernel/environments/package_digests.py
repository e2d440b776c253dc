"""Digests of the content of packages, by which the head and every node identify them."""

from __future__ import annotations

import hashlib
import os
from typing import IO

from kernel_spec.errors import RuntimeEnvError

PIECE_BYTES = 2 << 20
"""Bytes of an archive in one message."""


def digest_of(archive: IO[bytes]) -> str:
    """Return the digest of an archive, which is read to its end."""
    found = hashlib.blake2b(digest_size=16)
    archive.seek(0)
    while data := archive.read(PIECE_BYTES):
        found.update(data)
    return found.hexdigest()


def check_digest(path: str, digest: str) -> None:
    """Raise RuntimeEnvError, and remove the file, when its content does not have this digest."""
    with open(path, "rb") as file:
        found = digest_of(file)
    if found != digest:
        os.unlink(path)
        raise RuntimeEnvError(f"package {digest} arrived damaged (its content is {found}); send it again")
