"""Name the task that wrote a line: a worker runs many tasks, and all its output goes through one pipe.

Lines that are written through Python's streams carry the task's name in a mark that is not shown. Lines that are
written in other ways (by a subprocess, a C library, a thread) belong to the process, and have no name.
"""

from __future__ import annotations

import io
import os
import re
import select
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TextIO

from kernel_processes.protocol.carriage_returns import overwritten

_BEGIN, _END = b"\x1e\x1f", b"\x1f"
_MARK = re.compile(rb"\x1e\x1f([^\x1f]*)\x1f")


class NamedOutput(io.FileIO):
    """Writes to a pipe, and marks each line with the name that `name()` returns at that moment, if any."""

    def __init__(self, descriptor: int, name: Callable[[], str]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._name = name
        self._pipe = os.fstat(descriptor).st_ino
        self._marked = ""
        self._mark = b""

    def write(self, data: Any) -> int:
        """Write all of `data`; return its length."""
        text = bytes(data)
        name = self._name()
        if name and os.fstat(self.fileno()).st_ino == self._pipe:  # Otherwise user code has replaced it.
            if name != self._marked:
                self._marked = name
                self._mark = _BEGIN + "".join(c if c.isprintable() else " " for c in name).encode() + _END
            lines = text[:-1].replace(b"\n", b"\n" + self._mark) + text[-1:]
            self._write_all(self._mark + lines)
        else:
            self._write_all(text)
        return len(text)

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = super().write(rest)
            if written is None:  # Another process that shares the pipe has made it non-blocking.
                select.select([], [self], [])
            else:
                rest = rest[written:]


def named(stream: TextIO, name: Callable[[], str]) -> TextIO:
    """Return a text stream to the same pipe as `stream`, which marks lines with `name()`."""
    raw = NamedOutput(stream.fileno(), name)
    raw.name = stream.name
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True)


def by_name(lines: Iterable[bytes]) -> list[tuple[str, list[str]]]:
    """Return lines without marks, as text, together with those beside them of the same name ("" without mark)."""
    return [(name, [text for _, text in group]) for name, group in groupby(map(_unmarked, lines), lambda line: line[0])]


def _unmarked(line: bytes) -> tuple[str, str]:
    found = _MARK.search(line) if _BEGIN in line else None
    if found is None:
        return "", overwritten(line.decode("utf-8", "replace"))
    text = _MARK.sub(b"", line).decode("utf-8", "replace")
    return found[1].decode("utf-8", "replace"), overwritten(text)


def without_overwritten(rest: bytes) -> bytes:
    """Return the visible text of an unfinished line, without text that carriage returns in it have overwritten."""
    before, returned, last = rest.rpartition(b"\r")
    found = _MARK.search(rest)
    shown = overwritten(_MARK.sub(b"", before).decode("utf-8", "surrogateescape"))
    return (found[0] if found else b"") + shown.encode("utf-8", "surrogateescape") + returned + last
