"""A program on a terminal of its own, for tests that type.

with Terminal("-m", "kernel.cli.main", "debug") as terminal:
    terminal.expect("(Pdb) ")
    terminal.send("continue")
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from kernel_testing.faults import PATIENCE_SECONDS

CONTROL_C, CONTROL_D = "\x03", "\x04"


class Terminal:
    """Runs `python ARGUMENTS` on a new terminal. A context manager; a program that still runs then is killed.

    Without an `environment` it has this one's, and a terminal that can do nothing but show lines.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None, columns: int = 80) -> None:
        self.shown = ""
        """All that came, without carriage returns."""
        self._seen = 0
        self._file, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # `pty.fork` would do without setsid, but a fork of a process with threads is not safe: gRPC opens files there.
        command = ["setsid", "--ctty", sys.executable, *arguments]
        given = {**os.environ, "TERM": "dumb"} if environment is None else environment
        self._program: subprocess.Popen[bytes] = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=given
        )
        os.close(theirs)

    @property
    def pid(self) -> int:
        """The program's process."""
        return self._program.pid

    def expect(self, text: str) -> str:
        """Return what comes up to `text` and with it, behind what was expected before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self._read(deadline), f"{text!r} did not come, but {self.shown[self._seen :]!r}"
        found = self.shown[self._seen : at + len(text)]
        self._seen = at + len(text)
        return found

    def send(self, text: str) -> None:
        """Type a line, or a control character alone."""
        os.write(self._file, (text if text in (CONTROL_C, CONTROL_D) else f"{text}\n").encode())

    def rest(self) -> str:
        """Wait for the end of the program; return what came after what was expected last."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.shown[self._seen :]

    def exit_code(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        self.rest()
        return self._program.wait()

    def kill(self) -> None:
        """End the program as a closed window or a broken line does: without a word."""
        self._program.kill()
        self._program.wait()

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        assert left > 0, f"nothing more came in time, after {self.shown[self._seen :]!r}"
        if not select.select([self._file], [], [], left)[0]:
            return True
        try:
            data = os.read(self._file, 1 << 16)
        except OSError:  # the program has ended
            return False
        self.shown += data.decode(errors="replace").replace("\r", "")
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        os.close(self._file)
