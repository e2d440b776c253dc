"""The default spill target: files in a private directory, which goes away with the session."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import tempfile
import urllib.parse
from pathlib import Path

from kernel_spec.errors import ObjectStoreError, OutOfDiskError, SpillError
from kernel_spec.ids import ObjectId

SCHEME = "file://"
MAX_CALL_BYTES = 64 << 20
"""Maximum number of bytes of one system call: small enough that a failing disk is noticed soon."""


class DiskSpill:
    """Keeps each object in a file of its own, in a fresh directory (0700) under `directory`. Thread-safe.

    If that directory is removed, what was in it is lost, and the next write makes it again. Raises
    `SpillError` when it can't be made at first.
    """

    name = "disk"

    def __init__(self, directory: str) -> None:
        if "://" in directory:
            raise SpillError(
                f"spill_directory is a URL ({directory.partition('://')[0]}://...), and the spill target {self.name!r} "
                "keeps files in a directory: name one, or choose spill_target='fsspec'"
            )
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            self.directory = tempfile.mkdtemp(prefix="kernel-spill-", dir=os.path.abspath(directory))
        except OSError as error:
            raise SpillError(
                f"can't make a directory for spilled objects in {directory!r}: {error.strerror}; "
                f"name a writable one with spill_directory"
            ) from error
        self._numbers = itertools.count()

    def write(self, object: ObjectId, data: memoryview) -> str:
        """Store the bytes and return the uri; raise `OutOfDiskError` or `SpillError`, leaving nothing behind."""
        path = os.path.join(self.directory, f"{object.hex()}-{next(self._numbers)}")
        try:
            try:
                _write_whole(path, data)
            except FileNotFoundError:
                _make_again(self.directory)
                _write_whole(path, data)
        except OSError as error:
            raise self._write_error(object, data.nbytes, error) from error
        return SCHEME + urllib.parse.quote(path)

    def read_into(self, uri: str, data: memoryview) -> None:
        """Fill `data`; raise `SpillError` when the copy is missing or not of its length."""
        path = self._path(uri)
        try:
            with open(path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size != data.nbytes:
                    raise SpillError(f"the spilled copy {path} has {size} bytes, {data.nbytes} were expected")
                _read_file(file.fileno(), data, path)
        except OSError as error:
            raise SpillError(f"can't read the spilled copy {path}: {error.strerror}") from error

    def delete(self, uri: str) -> None:
        """Remove the copy. Missing ones are ignored."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(uri))

    def close(self) -> None:
        """Remove everything this session stored, and its directory; nothing else is touched."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, uri: str) -> str:
        path = urllib.parse.unquote(uri.removeprefix(SCHEME))
        if not uri.startswith(SCHEME) or os.path.dirname(path) != self.directory:
            raise SpillError(f"{uri!r} names nothing that was spilled to {self.directory}")
        return path

    def _write_error(self, object: ObjectId, size: int, error: OSError) -> ObjectStoreError:
        what = f"can't spill object {object.hex()} of {size} bytes to {self.directory}: {error.strerror}"
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return SpillError(f"{what}; name another place with spill_directory")
        room = "an unknown number of"
        with contextlib.suppress(OSError):
            status = os.statvfs(self.directory)
            room = str(status.f_bavail * status.f_frsize)
        return OutOfDiskError(
            f"{what} ({room} bytes are free there); make room, or name another place with spill_directory"
        )


def _make_again(directory: str) -> None:
    """Create a directory (0700) that was removed, and its parents; do nothing if it exists."""
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with contextlib.suppress(FileExistsError):  # another thread was first
        os.mkdir(directory, 0o700)


def _write_whole(path: str, data: memoryview) -> None:
    """Write a file atomically."""
    unfinished = f"{path}.unfinished"
    try:
        _write_file(unfinished, data)
        os.rename(unfinished, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def _write_file(path: str, data: memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = data.cast("B")
        while rest:
            rest = rest[os.write(descriptor, rest[:MAX_CALL_BYTES]) :]
    finally:
        os.close(descriptor)


def _read_file(descriptor: int, data: memoryview, path: str) -> None:
    rest = data.cast("B")
    while rest:
        count = os.readv(descriptor, [rest[:MAX_CALL_BYTES]])
        if not count:
            raise SpillError(f"the spilled copy {path} ends {len(rest)} bytes too soon")
        rest = rest[count:]
