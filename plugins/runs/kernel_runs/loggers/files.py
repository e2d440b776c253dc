"""Many files that are appended to, each complete after every call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from kernel_runs.errors import RunError

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


def _most_open() -> int:
    """Return how many files may stay open: an eighth of the limit of the process, as other code opens files too."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 128
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1024 if limit < 0 else max(8, min(1024, limit // 8))


class AppendedFiles:
    """Appends to files by path, unbuffered: what was appended survives a kill of the process.

    Files stay open up to a limit, and are reopened when needed: opening costs several times as much as writing.
    """

    def __init__(self, most_open: int | None = None) -> None:
        self._most_open = most_open or _most_open()
        self._open: dict[str, int] = {}

    def append(self, path: str, data: bytes) -> None:
        """Append to a file, which is created if needed. Raises RunError if not all could be written."""
        try:
            descriptor = self._open.get(path)
            if descriptor is None:
                descriptor = self._opened(path)
            written = os.write(descriptor, data)
            while written < len(data):  # as happens when the disk is nearly full: the next write says why
                written += os.write(descriptor, data[written:])
        except OSError as error:
            self.close(path)
            raise RunError(
                f"can't write {path}: {error.strerror or error}. Results are safe in the log of the experiment. "
                "Fix that and resume it: incomplete records are removed, and missing ones are written."
            ) from error

    def close(self, path: str) -> None:
        """Close a file, if it is open."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def close_all(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self.close(path)

    def _opened(self, path: str) -> int:
        while len(self._open) >= self._most_open:
            self.close(next(iter(self._open)))
        try:
            descriptor = os.open(path, _FLAGS, 0o644)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = os.open(path, _FLAGS, 0o644)
        self._open[path] = descriptor
        return descriptor


def cut(path: str, size: int) -> None:
    """Truncate a file to `size` bytes. With 0 it is removed."""
    try:
        if size == 0:
            os.remove(path)
        elif os.path.getsize(path) > size:
            os.truncate(path, size)
    except FileNotFoundError:
        pass


def write_whole(path: str, data: bytes) -> None:
    """Replace a file atomically: readers see all of the old content or all of the new one."""
    with written_whole(path) as beside, open(beside, "wb") as file:
        file.write(data)


@contextlib.contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Provide the path of a file to write, which replaces `path` at the end of the block. If that raises, `path` stays.

    Raises RunError if the operating system can't write it.
    """
    home, name = os.path.split(path)
    beside = os.path.join(home, f".writing_{name}")  # with the same ending, by which some writers know the format
    try:
        os.makedirs(home or ".", exist_ok=True)
        yield beside
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise RunError(f"can't write {path}: {error.strerror or error}") from error
