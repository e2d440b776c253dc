"""Connect a debugger's terminal to the attached user: output and input pass through the agents and the head."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from kernel.runtime.waiter import Waiter
from kernel_processes.protocol.debug_conversation import Conversation

if TYPE_CHECKING:
    from kernel_processes.runtime.process import Process

AGAIN_SECONDS = 2.0
"""Seconds between two reports of a waiting session to the head, which may have been replaced meanwhile."""


class DebugSession:
    """Stands in for the file objects of a terminal. `on_change(self)` is called when its row has changed.

    The thread that reads messages calls `reply`, `attach` and the like; the debugged thread calls everything else.
    """

    encoding = "utf-8"

    def __init__(
        self, row: dict[str, Any], thread: int, process: Process, on_change: Callable[[DebugSession], None]
    ) -> None:
        self.id: str = row["id"]
        self.row = row
        """The row of the breakpoint for the head and `kernel debug`: its place, and since when it waits."""
        self.thread = thread
        self.talk = Conversation()
        self.header = ""
        """Text that is shown once, with the next stop."""
        self.has_control = False
        """Whether the debugger takes commands or carries one out, while the program stands still."""
        self.stop_at: Callable[[FrameType], None] = lambda frame: None
        self._process = process
        self._on_change = on_change
        self._waiter: Waiter | None = None
        self._line = ""

    # -- a file ----------------------------------------------------------------------------------------------------

    def write(self, text: str) -> int:
        """Show a text."""
        with self._process.lock:
            self.talk.write(text)
        self._line = (self._line + text).rpartition("\n")[2]
        return len(text)

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def isatty(self) -> bool:
        """Say no: nothing here understands control sequences."""
        return False

    def readline(self) -> str:
        """Ask for a line with what was written last, and wait for it, for however long it takes.

        Raises KeyboardInterrupt, CancelledError in a coroutine, when the call is cancelled.
        """
        with self._process.lock:
            self.talk.ask(self._line)
        self._line = ""
        self._on_change(self)
        while (line := self._await_line()) is None:
            self._on_change(self)  # The head may be another one by now.
        self._on_change(self)
        return line + "\n"

    def _await_line(self) -> str | None:
        """Return the line that has come, or nothing after some seconds."""
        process = self._process
        with process.lock:
            if self.talk.let_go:
                raise asyncio.CancelledError if _is_in_coroutine() else KeyboardInterrupt
            line = self.talk.take()
            if line is not None:
                return line
            waiter = self._waiter = Waiter(1)
        process.flush()
        process.pump.wait(waiter, process.reactor.clock() + AGAIN_SECONDS)
        with process.lock:
            self._waiter = None
            return None if self.talk.let_go else self.talk.take()

    # -- the debugger ----------------------------------------------------------------------------------------------

    def stopped(self, frame: FrameType | None, *cause: Any) -> None:
        """The program stands still: in `frame`, or where `cause` (a traceback, or an exception that has one) ends."""
        code, line = _place(frame, cause)
        self.row |= {"file": code[0], "function": code[1], "line": line, "since": time.time()}
        with self._process.lock:
            self.talk.stop()
        header, self.header = self.header, ""
        self.write(header)

    def over(self, how: str) -> None:
        """The debugger has nothing to ask any more."""
        with self._process.lock:
            if self.talk.ended:
                return
            self.talk.end(how)
        self._on_change(self)

    # -- whoever is attached (under the lock) ----------------------------------------------------------------------

    def answer(self, debugger: bytes, number: int, line: str) -> None:
        """Take a line of the attached user."""
        if self.talk.answer(debugger, number, line):
            self._wake()

    def let_go(self) -> None:
        """The call is cancelled."""
        self.talk.let_go = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.complete()


def _place(frame: FrameType | None, cause: tuple[Any, ...]) -> tuple[tuple[str, str], int]:
    traceback: TracebackType | None = cause[0] if cause else None
    traceback = getattr(traceback, "__traceback__", traceback)
    if frame is not None:
        line = frame.f_lineno
    else:
        assert traceback is not None
        while traceback.tb_next is not None:
            traceback = traceback.tb_next
        frame, line = traceback.tb_frame, traceback.tb_lineno
    return (frame.f_code.co_filename, frame.f_code.co_name), line or 0


def _is_in_coroutine() -> bool:
    return asyncio._get_running_loop() is not None
