"""A log file of limited size, whose writes never raise."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO


class RotatingFile:
    """Appends text to the file at `path`. A file that has reached `file_bytes` is renamed to `path.1`, and so on.

    At most `files` files are kept. On a full disk lines are lost, but `write` does not raise. The file is created by
    `open` or by the first `write`.
    """

    def __init__(self, path: str, file_bytes: int, files: int) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._file: BinaryIO | None = None
        self._size = 0

    def open(self) -> None:
        """Open the file for appending, and create it if it does not exist."""
        with suppress(OSError):
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - open until `close`
            self._size = os.fstat(self._file.fileno()).st_size

    def write(self, text: str) -> None:
        """Append `text`, in UTF-8."""
        data = text.encode("utf-8", "replace")
        if self._size and self._size + len(data) > self._file_bytes:
            self._rotate()
        if self._file is None:
            self.open()
        if self._file is not None:
            with suppress(OSError):
                self._size += self._file.write(data[: self._file_bytes])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        self.close()
        with suppress(OSError):
            for number in range(self._files - 1, 0, -1):
                newer = f"{self._path}.{number - 1}" if number > 1 else self._path
                if os.path.exists(newer):
                    os.replace(newer, f"{self._path}.{number}")
        self.open()
