"""Show workers' output to drivers, without waiting for a driver that does not read."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.transport.connection import Connection

WAITING_MESSAGES = 64
"""Maximum number of messages that wait for a driver; further lines are left out."""
LINES_A_MESSAGE = 500
"""Maximum number of lines of one worker in one message."""


class LogFeed:
    """Sends lines to drivers; lines that a slow driver misses are counted, and reported when it reads again."""

    def __init__(self) -> None:
        self._left_out: dict[Connection, int] = {}

    def send(self, drivers: Iterable[Connection], pid: int, name: str, stream: str, lines: list[str]) -> None:
        """Send lines of one worker to `drivers`."""
        for driver in drivers:
            if len(driver.outbox) > WAITING_MESSAGES:
                self._left_out[driver] = self._left_out.get(driver, 0) + len(lines)
                continue
            missed = self._left_out.pop(driver, 0)
            if missed:
                note = f"{missed} lines were left out because this program reads too slowly; see `kernel logs`"
                driver.send(packed(op.LogLines(pid=0, name="kernel", stream="stderr", lines=[note])))
            last = driver.outbox[-1] if driver.outbox else ()
            if last[:4] == (number_of(op.LogLines), pid, name, stream) and len(last[4]) < LINES_A_MESSAGE:
                last[4].extend(lines)
            else:
                driver.send(packed(op.LogLines(pid=pid, name=name, stream=stream, lines=list(lines))))
            driver.flush()

    def forget(self, driver: Connection) -> None:
        """A driver left."""
        self._left_out.pop(driver, None)
