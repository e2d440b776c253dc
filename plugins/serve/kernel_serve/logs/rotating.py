"""A file of lines of limited size, which never raises an error in its writer."""

from __future__ import annotations

import os
from contextlib import suppress

FILE_BYTES = 64 << 20
FILES = 5


class RotatingFile:
    """Appends to the file `path`.

    Before it exceeds `file_bytes` it is renamed to `path.1`, and so on, up to `files` files.

    Bytes that a full disk does not take are dropped, and counted in `lost`.
    """

    def __init__(self, path: str, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        self.path = path
        self.lost = 0
        self._file_bytes = file_bytes
        self._files = files
        self._descriptor = -1
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append whole lines."""
        if self._size and self._size + len(data) > self._file_bytes:
            self._rotate()
        if self._descriptor < 0:
            self._open()
        written = 0
        with suppress(OSError):
            while written < len(data):
                written += os.write(self._descriptor, data[written:] if written else data)
        self._size += written
        self.lost += len(data) - written

    def close(self) -> None:
        """Close the file; another `write` opens it again."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        with suppress(OSError):
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
            self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        with suppress(OSError):
            for number in range(self._files - 1, 0, -1):
                newer = f"{self.path}.{number - 1}" if number > 1 else self.path
                if os.path.exists(newer):
                    os.replace(newer, f"{self.path}.{number}")
        if self._files == 1:
            with suppress(OSError):
                os.unlink(self.path)
        self._size = 0
