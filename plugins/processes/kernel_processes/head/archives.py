"""Keep the archives of runtime environments' packages on the head's disk, for every node to fetch."""

from __future__ import annotations

import os

from kernel.environments.package_digests import PIECE_BYTES, check_digest
from kernel_spec.errors import RuntimeEnvError


class Archives:
    """Keeps every package of the session below `directory`, by the digest of its content."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "archives")

    def has(self, digest: str) -> bool:
        """Return whether a package is here."""
        return os.path.exists(self._path(digest))

    def add(self, sender: str, digest: str, offset: int, total: int, piece: bytes) -> None:
        """Take the piece of a package that begins at `offset`; `sender`, an id, sends them in order.

        Raises RuntimeEnvError when they don't make what `digest` says, or can't be written.
        """
        if self.has(digest):
            return
        part = f"{self._path(digest)}.{sender}"
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(part, "ab" if offset else "wb") as file:
                file.write(piece)
            if offset + len(piece) == total:
                check_digest(part, digest)
                os.replace(part, self._path(digest))
        except OSError as error:
            raise RuntimeEnvError(f"package {digest} can't be kept in {self._directory}: {error}") from error

    def piece(self, digest: str, offset: int) -> tuple[int, bytes]:
        """Return the length of a package and its piece at `offset`; length 0 when the package is not here."""
        try:
            with open(self._path(digest), "rb") as file:
                file.seek(offset)
                return os.fstat(file.fileno()).st_size, file.read(PIECE_BYTES)
        except OSError:
            return 0, b""

    def _path(self, digest: str) -> str:
        return os.path.join(self._directory, digest)
