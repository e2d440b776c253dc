"""A log file that never takes more room than it was given, and never fails its writer."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO


class RotatingFile:
    """Append text at `path`. When that has `file_bytes` it becomes `path.1`, and so on up to `files` in all.

    On a full disk lines are lost, but no writer fails. The file is made when it is opened, or with the first text.
    """

    def __init__(self, path: str, file_bytes: int, files: int) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._file: BinaryIO | None = None
        self._size = 0

    def open(self) -> None:
        """Make the file, if it is not there, to append to it."""
        with suppress(OSError):
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - lives as long as this does
            self._size = os.fstat(self._file.fileno()).st_size

    def write(self, text: str) -> None:
        """Append `text`."""
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
