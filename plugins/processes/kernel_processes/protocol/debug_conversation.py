"""The conversation between a debugger that waits in a worker and its user. Pure: no threads, no I/O."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT_CHARACTERS = 1_000_000
"""Maximum number of characters of output, the latest ones, that are kept until the user reads them."""

ID_DIGITS = 8
"""The number of digits of a breakpoint's id."""
ATTACH, POLL, ANSWER, DETACH = "attach", "poll", "answer", "detach"
"""The commands of a user."""
WAITING, ATTACHED, RUNNING, OVER = "waiting", "attached", "running", "over"
"""The states of a breakpoint."""


class DebugReply(NamedTuple):
    """Holds a debugger's news: output, number and text of its prompt (0: none), and how it ended, "" if it runs."""

    output: str
    number: int
    prompt: str
    ended: str


class Conversation:
    """Holds the conversation with one debugger of a worker, from its first stop to its end.

    The debugger stops at a place and shows it, asks for commands, runs the program on, and may stop again. At most one
    user is attached. A prompt stays until a user attaches, who is then shown all output since the stop.
    """

    def __init__(self) -> None:
        self.debugger = b""
        """The process that is attached."""
        self.ended = ""
        self.let_go = False
        """The call was cancelled: no further command is waited for."""
        self._number = 0
        self._prompt: str | None = None
        self._lines: deque[str] = deque()
        self._output = ""
        self._shown = ""
        self._stops = False

    @property
    def state(self) -> str:
        """WAITING for a user to attach, ATTACHED with a prompt, RUNNING code, or OVER."""
        if self.ended:
            return OVER
        if self._prompt is None:
            return RUNNING
        return ATTACHED if self.debugger else WAITING

    # -- the debugger's side ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        """The program has stopped, and what comes up to the next prompt says where."""
        self._stops, self._shown = True, ""

    def write(self, text: str) -> None:
        """Show something."""
        if self._stops:
            self._shown += text
        if self.debugger:
            self._output = (self._output + text)[-KEPT_CHARACTERS:]

    def ask(self, prompt: str) -> None:
        """Ask for a line."""
        self._number += 1
        self._prompt, self._stops = prompt, False

    def take(self) -> str | None:
        """Return the line that was asked for, or None if it has not come."""
        if not self._lines:
            return None
        self._prompt = None
        return self._lines.popleft()

    def end(self, how: str) -> None:
        """Nothing will be asked any more."""
        if not self.ended:
            self.ended, self._prompt = how, None

    # -- the side of whoever is attached ---------------------------------------------------------------------------

    def attach(self, debugger: bytes) -> bool:
        """Let `debugger` in; return whether that could be."""
        if self.debugger and self.debugger != debugger:
            return False
        self.debugger, self._output = debugger, self._shown
        return True

    def detach(self, debugger: bytes) -> None:
        """`debugger` has gone."""
        if self.debugger == debugger:
            self.debugger, self._output = b"", ""

    def answer(self, debugger: bytes, number: int, line: str) -> bool:
        """Take a line for prompt `number`; return whether it was waited for."""
        if debugger != self.debugger or self._prompt is None or number != self._number or self._lines:
            return False
        self._lines.append(line)
        return True

    def reply(self) -> DebugReply:
        """Return what is new to the attached user."""
        output, self._output = self._output, ""
        stands = self._prompt is not None and not self._lines
        return DebugReply(output, self._number if stands else 0, self._prompt or "" if stands else "", self.ended)
