"""Draws all bars of a program at the bottom of its terminal, below whatever the program prints."""

from __future__ import annotations

import atexit
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from kernel_parallel.progress.state import BarState, render, render_plain

_DRAW_SECONDS = 0.05
PLAIN_SECONDS = 10.0
"""How often a bar writes a line where there is no terminal."""


class Screen:
    """The bars on one stream. On a terminal they are drawn again and again, in a file they are lines now and then.

    stream: where to; None for whatever is `sys.stderr`. size: returns columns and rows; clock: seconds that never go
    back. While bars are shown on a terminal, `sys.stdout` and `sys.stderr` are wrapped, so that what is printed comes
    above them.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        size: Callable[[], tuple[int, int]] = shutil.get_terminal_size,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = stream
        self._size = size
        self._clock = clock
        self._lock = threading.RLock()
        self._bars: dict[str, BarState] = {}
        self._ended: set[str] = set()
        self._drawn = 0
        self._drawn_at = float("-inf")
        self._told: dict[str, float] = {}
        self._wrapped: dict[str, Any] = {}

    def show(self, states: Iterable[BarState]) -> None:
        """Show bars as they are now; those that are closed stay as a line, if they are to, and go."""
        with self._lock:
            ended = []
            for state in states:
                if state.id in self._ended:
                    continue
                self._bars[state.id] = state
                if state.closed:
                    ended.append(state)
            if self._is_terminal():
                self._show_on_terminal(ended)
            else:
                self._show_in_file(ended)
            for state in ended:
                self._bars.pop(state.id, None)
                self._ended.add(state.id)
                self._told.pop(state.id, None)

    def write(self, text: str, stream: TextIO | None = None) -> None:
        """Write whole lines above the bars."""
        with self._lock:
            target = stream or self._stream()
            self._clear()
            target.write(text)
            self._flush(target)
            self._draw()

    def close(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        with self._lock:
            self._clear()
            self._draw()
            if self._drawn:
                self._put("\n")
            self._drawn = 0
            self._bars.clear()
            self._unwrap()

    # -- on a terminal -----------------------------------------------------------------------------------------------

    def _show_on_terminal(self, ended: list[BarState]) -> None:
        if not ended and self._clock() - self._drawn_at < _DRAW_SECONDS:
            return
        self._wrap()
        self._clear()
        columns, _ = self._size()
        for state in ended:
            self._bars.pop(state.id, None)
            if state.leave:
                self._put(render(state, columns - 1) + "\n")
        self._draw()
        if not self._bars:
            self._unwrap()

    def _draw(self) -> None:
        """Draw all bars; the cursor is at the end of the last one."""
        if not self._bars or not self._is_terminal():
            return
        columns, rows = self._size()
        order = sorted(self._bars.values(), key=lambda bar: (bar.position is None, bar.position or 0))
        lines = [render(bar, columns - 1) for bar in order]
        most = max(1, rows - 2)
        if len(lines) > most:
            lines = [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
        self._put("\n".join(lines))
        self._drawn, self._drawn_at = len(lines), self._clock()

    def _clear(self) -> None:
        """Take the bars away; the cursor is where the first one began."""
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self._put(f"\r{up}\x1b[J")
            self._drawn = 0

    # -- in a file ---------------------------------------------------------------------------------------------------

    def _show_in_file(self, ended: list[BarState]) -> None:
        now = self._clock()
        gone = {state.id for state in ended}
        for state in self._bars.values():
            due = self._told.setdefault(state.id, now) + PLAIN_SECONDS <= now
            if (state.id in gone and state.leave) or (due and state.id not in gone):
                self._told[state.id] = now
                self._put(render_plain(state) + "\n")

    # -- streams -----------------------------------------------------------------------------------------------------

    def _stream(self) -> Any:
        stream = self._given or sys.stderr
        return stream.below if isinstance(stream, Above) else stream

    def _is_terminal(self) -> bool:
        stream = self._stream()
        try:
            return bool(stream is not None and stream.isatty())
        except ValueError:
            return False

    def _put(self, text: str) -> None:
        stream = self._stream()
        if stream is not None:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                stream.write(text.encode("ascii", "replace").decode())
            self._flush(stream)

    def _flush(self, stream: Any) -> None:
        try:
            stream.flush()
        except (OSError, ValueError):
            return  # the program closed its output

    def _wrap(self) -> None:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if name not in self._wrapped and not isinstance(stream, Above) and stream is not None and stream.isatty():
                self._wrapped[name] = Above(self, stream)
                setattr(sys, name, self._wrapped[name])

    def _unwrap(self) -> None:
        for name, wrapper in self._wrapped.items():
            if getattr(sys, name) is wrapper:
                setattr(sys, name, wrapper.below)
            wrapper.end()
        self._wrapped = {}


class Above:
    """A stream of the program while bars are shown below: whole lines are written above them."""

    def __init__(self, screen: Screen, below: Any) -> None:
        self._screen = screen
        self.below = below
        self._rest = ""

    def write(self, text: str) -> int:
        """Write the whole lines of the text, and keep what begins a new one until it ends."""
        lines, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._screen.write(lines + newline, self.below)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write one after another."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush what is below; a line that has not ended waits."""
        self.below.flush()

    def end(self) -> None:
        """Write what has not ended."""
        rest, self._rest = self._rest, ""
        if rest:
            self.below.write(rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


screen = Screen()
atexit.register(screen.close)
