"""Runtime environments on a node: packages unpacked once by content, and what a worker needs to run in one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import RuntimeEnvError


class Packages:
    """The environments that workers of this node run in, and the packages they are made of."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "packages")
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self._known: dict[str, Mapping[str, Any]] = {"": {}}

    def learn(self, key: str, description: Mapping[str, Any]) -> None:
        """Remember what an environment is (see `kernel.control.environments`)."""
        self._known[key] = description

    def missing(self, key: str) -> list[str]:
        """Return the packages of an environment that are not unpacked here."""
        return [digest for digest in self._packages(self._known[key]) if not os.path.isdir(self._path(digest))]

    def partial(self, digest: str) -> str:
        """Return the file into which the archive of a package is fetched."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        return self._path(digest) + ".zip"

    def unpack(self, digest: str) -> None:
        """Unpack the archive that was fetched, and remove it. Raises RuntimeEnvError when that can't be."""
        import tempfile  # both only where an environment has packages
        import zipfile

        archive = self.partial(digest)
        target = tempfile.mkdtemp(dir=self._directory)
        try:
            with zipfile.ZipFile(archive) as package:
                for member in package.infolist():
                    os.chmod(package.extract(member, target), 0o600 | (member.external_attr >> 16) & 0o777)
            os.replace(target, self._path(digest))
        except (OSError, zipfile.BadZipFile) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise RuntimeEnvError(f"package {digest} can't be unpacked in {self._directory}: {error}") from error
        finally:
            os.unlink(archive)

    def worker_settings(self, key: str) -> tuple[dict[str, str], str, list[str]]:
        """Return variables, working directory ("" for the job's) and extra module paths of an environment."""
        description = self._known[key]
        working = description.get("working_dir")
        cwd = self._path(working) if working else ""
        paths = [cwd] if cwd else []
        paths += [self._path(digest) for digest in description.get("py_modules", ())]
        return dict(description.get("env_vars", {})), cwd, paths

    @staticmethod
    def _packages(description: Mapping[str, Any]) -> list[str]:
        working = description.get("working_dir")
        return [*([working] if working else []), *description.get("py_modules", ())]

    def _path(self, digest: str) -> str:
        return os.path.join(self._directory, digest)
