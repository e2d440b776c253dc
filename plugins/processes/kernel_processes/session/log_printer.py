"""Print the output of workers in the driver, with the process that it comes from."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from kernel.logs import Logger
from kernel_engine.failures.failure_reports import show_text
from kernel_engine.messages.named_messages import Message, unpacked
from kernel_engine.messages.process_messages import FAILURE_STREAM, NOTICE_STREAM, UNFINISHED, LogLines
from kernel_engine.terminal_text import harmless, without_colours
from kernel_processes.transport.connection import Connection

PLAIN_SECONDS = 10.0
"""Seconds between two prints of a line that is overwritten repeatedly, where the output is not a terminal."""

_BAR = re.compile(r"\d+%\||\d+/\d+ \[|\d+it \[")
"""Matches a progress bar of tqdm."""
_CLEAR = "\r\x1b[K"
_log = Logger("kernel")


class LogPrinter:
    """Prints lines as `(name pid=123) text`: standard output to the driver's, standard error to the driver's.

    A line that is overwritten repeatedly, such as a progress bar, is redrawn on a terminal; of several such lines only
    the latest is shown. Other control sequences are removed on a terminal. `clock()` returns monotonic seconds,
    `columns()` the width of the terminal.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        columns: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._clock = clock
        self._columns = columns
        self._last_printed: dict[tuple[int, str], float] = {}
        """When an overwritten line was last printed without a terminal, by pid and stream."""
        self._drawn: tuple[int, str] | None = None
        """Pid and stream of the unfinished line that is on the terminal now."""
        self._hinted = False

    def on_lines(self, connection: Connection, message: Message) -> None:
        """Print the lines of one worker."""
        pid, name, stream, lines = unpacked(LogLines, message)
        if stream == FAILURE_STREAM:
            for text in lines:
                show_text(name, text)
            return
        if stream == NOTICE_STREAM:
            for text in lines:
                _log.warning(harmless(text))
            return
        source = pid, stream.removesuffix(UNFINISHED)
        target = sys.stderr if source[1] == "stderr" else sys.stdout
        if target is None:
            return
        prefix = f"({name or 'worker'} pid={pid}) "
        if stream.endswith(UNFINISHED):
            self._hint(lines[-1])
        try:
            if not stream.endswith(UNFINISHED):
                self._print(target, source, prefix, lines)
            elif target.isatty():
                self._draw(target, source, prefix, lines[-1])
            else:
                self._print_now_and_then(target, source, prefix, lines[-1])
            target.flush()
        except (OSError, ValueError):
            return  # the driver closed its output

    def _print(self, target: TextIO, source: tuple[int, str], prefix: str, lines: Sequence[str]) -> None:
        self._last_printed.pop(source, None)
        if target.isatty():
            clear, self._drawn = (_CLEAR if self._drawn else ""), None
            target.write(clear + "".join(f"{_coloured(prefix)}{harmless(line)}\n" for line in lines))
        else:
            target.write("".join(f"{prefix}{line}\n" for line in lines))

    def _draw(self, target: TextIO, source: tuple[int, str], prefix: str, line: str) -> None:
        self._drawn = source
        text = harmless(line)
        room = max(0, self._columns() - 1 - len(prefix))
        if len(text) > room:
            text = without_colours(text)[:room]
        target.write(f"{_CLEAR}{_coloured(prefix)}{text}")

    def _print_now_and_then(self, target: TextIO, source: tuple[int, str], prefix: str, line: str) -> None:
        now = self._clock()
        if now - self._last_printed.setdefault(source, now) >= PLAIN_SECONDS:
            self._last_printed[source] = now
            target.write(f"{prefix}{line}\n")

    def _hint(self, line: str) -> None:
        if not self._hinted and _BAR.search(line):
            self._hinted = True
            _log.warning(
                "a task draws a progress bar: `from kernel.parallel import tqdm` has the same interface, and draws the "
                "bars of all processes together"
            )


def _coloured(prefix: str) -> str:
    return f"\x1b[36m{prefix}\x1b[0m"
