"""A log file whose writers never wait for the disk: a thread writes the texts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from kernel_processes.system.rotating_file import RotatingFile
from kernel_processes.system.starting import begin_thread

WAITING_CHARACTERS = 16 << 20
"""Maximum number of characters that wait for the disk. Further lines are left out, and counted."""
CLOSE_SECONDS = 5.0
"""Seconds that `LogWriter.close` waits for a slow disk."""
_TOGETHER = 1 << 16
"""Maximum number of characters of short texts that are written together."""


def left_out_note(count: int) -> str:
    """Return a line that says that `count` lines are missing."""
    return f"{count} lines were left out: the disk did not take them in time\n"


class LogWriter:
    """Appends texts to `file`, in order, in a thread. Its methods may be called from any thread.

    The thread starts with the first text. Texts that it has not written when the process is killed are lost.
    `note(count)` returns the text that replaces `count` omitted lines in the file.
    """

    def __init__(self, file: RotatingFile, note: Callable[[int], str] = left_out_note) -> None:
        self._file = file
        self._note = note
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._characters = 0
        self._left_out = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Queue `text` for the file and return at once."""
        with self._changed:
            if self._characters + len(text) > WAITING_CHARACTERS:
                self._left_out += text.count("\n")
                return
            self._texts.append(text)
            self._characters += len(text)
            if self._thread is None:
                self._thread = begin_thread(self._serve, "log")
            if self._thread is None:  # No thread could be started: the writer has to wait.
                self._append(self._take())
            self._changed.notify()

    def flush(self) -> None:
        """Do nothing: no writer waits for the log."""

    def close(self) -> None:
        """Write the queued texts and close the file; wait at most CLOSE_SECONDS for a slow disk."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        else:
            self._file.close()

    def _serve(self) -> None:
        while texts := self._take():
            self._append(texts)
        self._file.close()

    def _append(self, texts: list[str]) -> None:
        for text in _joined(texts):
            self._file.write(text)

    def _take(self) -> list[str]:
        """Wait for texts and return them; return an empty list after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._texts or self._closed)
            texts, self._texts = self._texts, []
            if self._left_out:
                texts.append(self._note(self._left_out))
            self._characters = self._left_out = 0
            return texts


def _joined(texts: list[str]) -> Iterator[str]:
    """Yield the texts, with short ones joined."""
    together: list[str] = []
    characters = 0
    for text in texts:
        if together and characters + len(text) > _TOGETHER:
            yield "".join(together)
            together, characters = [], 0
        together.append(text)
        characters += len(text)
    yield "".join(together)
