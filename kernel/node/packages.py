"""Runtime environments on a node: packages unpacked once by content, and what a worker needs to run in one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.protocol.package_digests import check_digest
from kernel_spec.errors import RuntimeEnvError


class Packages:
    """The environments that workers of this node run in, and the packages they are made of.

    Methods that work with files say so: they are called in one thread, which is not that of the agent's loop.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "packages")
        self._known: dict[str, Mapping[str, Any]] = {"": {}}
        self._closed = False

    def learn(self, key: str, description: Mapping[str, Any]) -> None:
        """Remember what an environment is (see `kernel.head.environments`)."""
        self._known[key] = description

    def of(self, key: str) -> list[str]:
        """Return the digests of the packages that an environment is made of."""
        description = self._known[key]
        working = description.get("working_dir")
        return [*([working] if working else []), *description.get("py_modules", ())]

    def worker_settings(self, key: str) -> tuple[dict[str, str], str, list[str]]:
        """Return variables, working directory ("" for the job's) and extra module paths of an environment."""
        description = self._known[key]
        working = description.get("working_dir")
        cwd = self._path(working) if working else ""
        paths = [cwd] if cwd else []
        paths += [self._path(digest) for digest in description.get("py_modules", ())]
        return dict(description.get("env_vars", {})), cwd, paths

    def close(self) -> None:
        """Let what is being unpacked fail."""
        self._closed = True

    # -- work with files -------------------------------------------------------------------------------------------

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Return those packages that are not unpacked here; looks at files."""
        return [digest for digest in digests if not os.path.isdir(self._path(digest))]

    def add(self, digest: str, offset: int, total: int, piece: bytes) -> None:
        """Write the piece of an archive that begins at `offset`; after the last one, unpack it.

        Raises RuntimeEnvError when the archive is damaged or can't be unpacked, and OSError when it can't be written.
        """
        archive = self._path(digest) + ".zip"
        if not offset:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
        with open(archive, "r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(piece)
        if offset + len(piece) == total:
            check_digest(archive, digest)
            self._unpack(archive, digest)

    def _unpack(self, archive: str, digest: str) -> None:
        import tempfile  # both only where an environment has packages
        import zipfile

        target = tempfile.mkdtemp(dir=self._directory)
        try:
            with zipfile.ZipFile(archive) as package:
                for member in package.infolist():
                    if self._closed:
                        raise RuntimeEnvError(f"package {digest} is not unpacked: the session ends")
                    os.chmod(package.extract(member, target), 0o600 | (member.external_attr >> 16) & 0o777)
            os.replace(target, self._path(digest))
        except (OSError, zipfile.BadZipFile, RuntimeEnvError) as error:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(error, RuntimeEnvError):
                raise
            raise RuntimeEnvError(f"package {digest} can't be unpacked in {self._directory}: {error}") from error
        finally:
            os.unlink(archive)

    def _path(self, digest: str) -> str:
        return os.path.join(self._directory, digest)
