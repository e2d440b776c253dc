"""Keep the packages of runtime environments on a node: each content is unpacked once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from kernel.environments.package_digests import check_digest
from kernel_spec.errors import RuntimeEnvError


class Packages:
    """Holds the packages that are on this node, by the digests of their archives.

    Methods that work with files say so: they are called in one thread, which is not that of the agent's loop.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "packages")
        self._closed = False

    def path(self, digest: str) -> str:
        """Return the directory of a package, which need not be there yet."""
        return os.path.join(self._directory, digest)

    def close(self) -> None:
        """Let what is being unpacked fail."""
        self._closed = True

    # -- work with files -------------------------------------------------------------------------------------------

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Return those packages that are not unpacked here; looks at files."""
        return [digest for digest in digests if not os.path.isdir(self.path(digest))]

    def add(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """Write the piece of an archive that begins at `offset`; after the last one, unpack it.

        Raises RuntimeEnvError when the archive is damaged or can't be unpacked, and OSError when it can't be written.
        """
        archive = self.path(digest) + ".zip"
        if not offset:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
        with open(archive, "r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(piece)
        if offset + len(piece) == total:
            check_digest(archive, digest)
            self._unpack(archive, digest)

    def _unpack(self, archive: str, digest: str) -> None:
        import tempfile  # Both are needed only for environments with packages.
        import zipfile

        target = tempfile.mkdtemp(dir=self._directory)
        try:
            with zipfile.ZipFile(archive) as package:
                for member in package.infolist():
                    if self._closed:
                        raise RuntimeEnvError(f"package {digest} is not unpacked: the session ends")
                    os.chmod(package.extract(member, target), 0o600 | (member.external_attr >> 16) & 0o777)
            os.replace(target, self.path(digest))
        except (OSError, zipfile.BadZipFile, RuntimeEnvError) as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, RuntimeEnvError):
                raise
            raise RuntimeEnvError(f"package {digest} can't be unpacked in {self._directory}: {error}") from error
        finally:
            os.unlink(archive)
