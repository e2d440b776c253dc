"""Read the file in which the agent keeps its workers' output (see `node.log_service`), while it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from kernel_processes.node.log_service import FILES

_NAME = "workers.log"
_LOOK_SECONDS = 0.1


class LogLine(NamedTuple):
    """Holds one line of output.

    `time` is in seconds since the epoch. `worker` has the first 8 digits of the worker's id, `name` is the task or
    actor that it ran, and `stream` is "out" or "err".
    """

    time: float
    worker: str
    pid: int
    name: str
    stream: str
    text: str


def parse(line: str) -> LogLine | None:
    """Parse a line of the file; return None for an incomplete one (a full disk can cut lines short)."""
    parts = line.rstrip("\n").split("\t", 5)
    try:
        return LogLine(float(parts[0]), parts[1], int(parts[2]), parts[3], parts[4], parts[5])
    except (ValueError, IndexError):
        return None


def tail(folder: str, count: int, wanted: Callable[[LogLine], bool], end: int) -> list[LogLine]:
    """Return the last `count` lines for which `wanted` is true, oldest first.

    Only the first `end` bytes of the newest file are read: a `Follower` reads the rest.
    """
    found: list[LogLine] = []
    for number in range(FILES):
        if len(found) >= count:
            break
        name = f"{_NAME}.{number}" if number else _NAME
        try:
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read() if number else file.read(end)
        except OSError:
            break
        lines = [parse(text) for text in data.decode("utf-8", "replace").split("\n")]
        found = [line for line in lines if line is not None and wanted(line)] + found
    return found[max(0, len(found) - count) :]


class Follower:
    """Reads lines that are added to the newest file from `position` on, and continues with the file that replaces it.

    Raises OSError when there is no file.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, _NAME)
        self._rest = b""
        self._file: IO[bytes] = open(self._path, "rb")  # noqa: SIM115 - read until the command ends
        self._file.seek(0, os.SEEK_END)
        self.position = self._file.tell()

    def new_lines(self) -> Iterator[LogLine]:
        """Yield the lines that were written since the last call."""
        yield from self._read()
        if self._replaced():
            yield from self._read()
            self._file.close()
            self._file = open(self._path, "rb")  # noqa: SIM115
            self._rest = b""
            yield from self._read()

    def wait(self) -> None:
        """Sleep for a moment before the next look at the file."""
        time.sleep(_LOOK_SECONDS)

    def _read(self) -> Iterator[LogLine]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for data in lines:
            line = parse(data.decode("utf-8", "replace"))
            if line is not None:
                yield line

    def _replaced(self) -> bool:
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file.fileno()).st_ino
        except OSError:
            return False
