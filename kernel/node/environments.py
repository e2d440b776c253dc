"""Runtime environments on a node: packages unpacked once by content, and what a worker needs to run in one.

An environment is described by plain values: `{"env_vars": {...}, "working_dir": digest, "py_modules": [digest, ...]}`.
Its key is the digest of that description, so equal environments share workers and unpacked files.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import RuntimeEnvError


class Environments:
    """The environments seen by one agent, and the packages they are made of."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "packages")
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        self._known: dict[str, Mapping[str, Any]] = {"": {}}

    def has(self, digest: str) -> bool:
        """Return whether a package is unpacked here."""
        return os.path.isdir(self._path(digest))

    def add(self, digest: str, archive: bytes) -> None:
        """Unpack a package. Raises RuntimeEnvError when it is not what `digest` says, or can't be unpacked."""
        found = hashlib.blake2b(archive, digest_size=16).hexdigest()
        if found != digest:
            raise RuntimeEnvError(f"package {digest} arrived damaged (its content is {found}); call init() again")
        if self.has(digest):
            return
        target = tempfile.mkdtemp(dir=self._directory)
        try:
            with zipfile.ZipFile(io.BytesIO(archive)) as package:
                for member in package.infolist():
                    os.chmod(package.extract(member, target), 0o600 | (member.external_attr >> 16) & 0o777)
            os.replace(target, self._path(digest))
        except (OSError, zipfile.BadZipFile) as error:
            shutil.rmtree(target, ignore_errors=True)
            raise RuntimeEnvError(f"package {digest} can't be unpacked in {self._directory}: {error}") from error

    def key_of(self, description: Mapping[str, Any] | None) -> str:
        """Return the key of an environment, remembering it."""
        if not description:
            return ""
        text = json.dumps(description, sort_keys=True)
        key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self._known[key] = description
        return key

    def key_within(self, outer: str, description: Mapping[str, Any] | None) -> str:
        """Return the key of an environment that is asked for inside another: it adds to that one's.

        Variables of the same name and the working directory are the inner one's, its modules are found first.
        """
        if not description:
            return outer
        around = self._known[outer]
        merged = {**around, **description}
        for name, both in (
            ("env_vars", {**around.get("env_vars", {}), **description.get("env_vars", {})}),
            ("py_modules", list(dict.fromkeys([*description.get("py_modules", ()), *around.get("py_modules", ())]))),
        ):
            if both:
                merged[name] = both
        return self.key_of(merged)

    def worker_settings(self, key: str) -> tuple[dict[str, str], str, list[str]]:
        """Return variables, working directory ("" for the job's) and extra module paths of an environment."""
        description = self._known[key]
        missing = [d for d in self._packages(description) if not self.has(d)]
        if missing:
            raise RuntimeEnvError(f"package {missing[0]} of the runtime_env is not on this node")
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
