"""Objects as files of a file system that fsspec knows, below a prefix of this session."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit, urlunsplit

import fsspec
from fsspec.implementations.local import LocalFileSystem

from kernel_spec.errors import OutOfDiskError, SpillError
from kernel_spec.ids import ObjectId
from kernel_spill_fsspec.problems import is_full, said
from kernel_spill_fsspec.steps import patiently, within

STEP_BYTES = 16 << 20
"""How much a step moves, and so how much memory a thread needs beside the object's own."""
START_SECONDS = 10.0
"""Seconds for which the trial at the start is repeated: a session that can't spill should say so soon."""
CLOSE_SECONDS = 8.0

Result = TypeVar("Result")


class FsspecSpill:
    """Keeps each object in a file of its own, whose name contains its size. Thread-safe.

    See `plugin.open_target` for the arguments. Raises SpillError when nothing can be written there.
    """

    name = "fsspec"

    def __init__(
        self, place: str, *, step_seconds: float, patience_seconds: float, storage_options: Mapping[str, Any]
    ) -> None:
        self.place = _without_secrets(place)
        self._step_seconds = step_seconds
        self._patience_seconds = min(patience_seconds, START_SECONDS)
        self._numbers = itertools.count()
        options = {**_defaults(place, step_seconds), **storage_options}
        try:
            self._files, root = fsspec.core.url_to_fs(place, skip_instance_cache=True, **options)
        except (ImportError, ValueError, TypeError) as error:
            raise SpillError(
                f"the spill target fsspec can't use {self.place!r}: {said(error)}. Name a path or URL with "
                "spill_directory, and install what it needs (for s3://: pip install s3fs)"
            ) from error
        self._is_local = isinstance(self._files, LocalFileSystem)
        if self._is_local:
            self._prefix = self.directory = _private_directory(root)
        else:
            self._prefix = posixpath.join(root.rstrip("/"), f"kernel-spill-{secrets.token_hex(8)}")
        self._try_out()
        self._patience_seconds = patience_seconds

    def write(self, object: ObjectId, data: memoryview) -> str:
        """Store the bytes and return the uri; raise `OutOfDiskError` or `SpillError`, leaving nothing behind."""
        path = posixpath.join(self._prefix, f"{object.hex()}-{next(self._numbers)}-{data.nbytes}")
        try:
            patiently(self._patience_seconds, lambda: self._write_once(path, data.cast("B")))
        except Exception as error:
            self._raise(f"can't spill object {object.hex()} of {data.nbytes} bytes to", error)
        return self._uri(path)

    def read_into(self, uri: str, data: memoryview) -> None:
        """Fill `data`; raise `SpillError` when the copy is missing or not of its length."""
        path = self._path(uri)
        size = path.rpartition("-")[2]
        if size != str(data.nbytes):
            raise SpillError(f"the spilled copy {uri} holds {size} bytes, not the {data.nbytes} of the object")
        try:
            patiently(self._patience_seconds, lambda: self._read_once(path, data.cast("B")))
        except SpillError:
            raise
        except Exception as error:
            self._raise(f"can't read the spilled copy {uri} from", error)

    def delete(self, uri: str) -> None:
        """Remove the copy. Missing ones are ignored."""
        self.delete_many([uri])

    def delete_many(self, uris: Sequence[str]) -> None:
        """Remove copies, in as few requests as the file system can. Missing ones are ignored."""
        paths = [self._path(uri) for uri in uris]
        try:
            patiently(self._patience_seconds, lambda: self._delete_once(paths))
        except Exception as error:
            self._raise(f"can't delete {len(paths)} spilled copies from", error)

    def close(self) -> None:
        """Remove everything this session stored; nothing else is touched."""

        def remove() -> None:
            self._files.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                self._files.rm(self._prefix, recursive=True)

        try:
            within(CLOSE_SECONDS, remove)
        except Exception as error:
            self._raise(f"the session's copies below {self._uri(self._prefix)} may be left behind in", error)

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _try_out(self) -> None:
        """Write, read and delete a byte: a target that does not work should fail now, not when the store is full."""
        path, memory = posixpath.join(self._prefix, "trial-1"), memoryview(bytearray(1))

        def attempt() -> None:
            self._write_once(path, memory)
            self._read_once(path, memory)
            self._delete_once([path])

        try:
            patiently(self._patience_seconds, attempt)
        except Exception as error:
            if self._is_local:
                self.close()
            self._raise("can't spill to", error)

    def _write_once(self, path: str, data: memoryview) -> None:
        try:
            file = self._step(lambda: self._files.open(path, "wb", block_size=STEP_BYTES))
        except FileNotFoundError:
            if not self._is_local:
                raise
            self._make_directory_again()
            file = self._step(lambda: self._files.open(path, "wb", block_size=STEP_BYTES))
        try:
            for start in range(0, len(data), STEP_BYTES):
                # A copy: a step that hangs must not read from memory that is given to another object.
                piece = data[start : start + STEP_BYTES] if self._is_local else bytes(data[start : start + STEP_BYTES])
                self._write_all(file, piece)
            self._step(file.close)
        except BaseException:
            self._drop(file, path)
            raise

    def _make_directory_again(self) -> None:
        """Make the directory again if it was removed: what was in it is lost, later objects are not."""
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another thread was first
            os.mkdir(self.directory, 0o700)

    def _write_all(self, file: Any, piece: bytes | memoryview) -> None:
        rest = memoryview(piece)
        while rest:
            written = self._step(partial(file.write, rest))
            rest = rest[len(rest) if written is None else written :]

    def _read_once(self, path: str, data: memoryview) -> None:
        if self._is_local:
            with self._files.open(path, "rb") as file:
                self._fill(path, data, lambda start, rest: file.readinto(rest[:STEP_BYTES]))
            return

        def fetch(start: int, rest: memoryview) -> int:
            end = start + min(STEP_BYTES, len(rest))
            piece = self._step(lambda: self._files.cat_file(path, start=start, end=end))
            rest[: len(piece)] = piece
            return len(piece)

        self._fill(path, data, fetch)

    def _fill(self, path: str, data: memoryview, read: Callable[[int, memoryview], int]) -> None:
        start = 0
        while start < len(data):
            count = read(start, data[start:])
            if not count:
                raise SpillError(
                    f"the spilled copy {self._uri(path)} is {len(data) - start} bytes too short, of {len(data)}"
                )
            start += count

    def _delete_once(self, paths: list[str]) -> None:
        try:
            self._step(lambda: self._files.rm(paths))
        except FileNotFoundError:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._step(partial(self._files.rm_file, path))

    def _drop(self, file: Any, path: str) -> None:
        """Give up a file that is not complete. Nobody knows its name, so what can't be removed does no harm."""

        def drop() -> None:
            with contextlib.suppress(Exception):
                file.discard()
            with contextlib.suppress(Exception):
                file.closed = True  # or its end would complete it
            with contextlib.suppress(Exception):
                self._files.rm_file(path)

        with contextlib.suppress(Exception):
            self._step(drop)

    def _step(self, call: Callable[[], Result]) -> Result:
        # What hangs on a disk of this machine hangs in the system: the agent's own limit is for that.
        return call() if self._is_local else within(self._step_seconds, call)

    # -- names and words -------------------------------------------------------------------------------------------

    def _uri(self, path: str) -> str:
        uri: str = self._files.unstrip_protocol(path)
        return uri

    def _path(self, uri: str) -> str:
        prefix = self._uri(self._prefix)
        name = uri.removeprefix(f"{prefix}/")
        if name == uri or "/" in name:
            raise SpillError(f"{uri!r} is not the name of a copy that was spilled to {prefix}")
        return posixpath.join(self._prefix, name)

    def _raise(self, what: str, error: Exception) -> NoReturn:
        text = f"{what} {self.place}: {said(error)}"
        if is_full(error):
            raise OutOfDiskError(f"{text}; make room there, or name another place with spill_directory") from error
        raise SpillError(
            f"{text}; see whether it answers and lets this user write, or name another place with spill_directory"
        ) from error


def _defaults(place: str, step_seconds: float) -> dict[str, Any]:
    """Return options by which a connection that hangs ends by itself, for file systems where they are known."""
    if urlsplit(place).scheme not in ("s3", "s3a"):
        return {}
    limits = {"connect_timeout": min(5.0, step_seconds), "read_timeout": step_seconds, "retries": {"max_attempts": 1}}
    return {"config_kwargs": limits, "use_listings_cache": False}


def _private_directory(root: str) -> str:
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix="kernel-spill-", dir=root)
    except OSError as error:
        raise SpillError(
            f"can't make a directory for spilled objects in {root!r}: {error.strerror}; "
            "name a writable one with spill_directory"
        ) from error


def _without_secrets(place: str) -> str:
    parts = urlsplit(place)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="")) if parts.netloc else place
