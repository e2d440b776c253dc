"""Copies of what a trial prints in files of its directory (`log_to_file`)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from kernel_runs.errors import RunError

Names = tuple[str, str]
"""The files for stdout and for stderr; "" for none. They may be the same file."""


def names_of(log_to_file: Any) -> Names:
    """Return the file names of a `log_to_file`: None, True, one name or two names. Raises RunError otherwise."""
    if log_to_file is None or log_to_file is False:
        return "", ""
    if log_to_file is True:
        return "stdout", "stderr"
    if isinstance(log_to_file, str) and log_to_file:
        return log_to_file, log_to_file
    if isinstance(log_to_file, Sequence) and len(log_to_file) == 2:
        first, second = log_to_file
        if all(name is None or isinstance(name, str) for name in (first, second)):
            return first or "", second or ""
    raise RunError(
        f"log_to_file is {log_to_file!r}: it is True (for the files 'stdout' and 'stderr' of each trial), the name of "
        "one file, or two names (stdout, stderr)"
    )


class _Both:
    """A stream that also writes into a file. All other attributes are those of the stream."""

    def __init__(self, stream: TextIO, file: TextIO) -> None:
        self._stream = stream
        self._file = file

    def write(self, text: str) -> int:
        """Write to both. Errors of the file (a full disk, a closed file) are ignored."""
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        """Write several strings."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush both."""
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class OutputFiles:
    """The output files of the trial that this process runs. Existing files are appended to."""

    def __init__(self) -> None:
        self._streams: tuple[TextIO, TextIO] | None = None
        self._files: list[TextIO] = []
        self._errors: TextIO | None = None

    def switch(self, directory: str, names: Names) -> None:
        """Copy what is printed from now on into these files of a directory, and no longer into those before."""
        self.close()
        if not any(names):
            return
        opened: dict[str, TextIO] = {}
        for name in filter(None, names):
            path = os.path.join(directory, os.path.expanduser(name))
            if name not in opened:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                opened[name] = open(path, "a", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115
        self._files = list(opened.values())
        self._streams = sys.stdout, sys.stderr
        self._errors = opened.get(names[1])
        if names[0]:
            sys.stdout = _Both(sys.stdout, opened[names[0]])  # type: ignore[assignment]
        if names[1]:
            sys.stderr = _Both(sys.stderr, opened[names[1]])  # type: ignore[assignment]

    def add_error(self, text: str) -> None:
        """Append the traceback of a failed trial to the file for stderr."""
        if self._errors is not None:
            with contextlib.suppress(OSError, ValueError):
                self._errors.write(text + "\n")

    def close(self) -> None:
        """Close the files, and restore stdout and stderr."""
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
            self._streams = None
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()
        self._files, self._errors = [], None
