"""Showing the output of workers in the driver, with its origin."""

from __future__ import annotations

import sys

from kernel.runtime.failure_reports import STREAM, show_text
from kernel.transport.connection import Connection, Message


class LogPrinter:
    """Prints lines as `(name pid=123) text`: output to the driver's output, errors to its errors."""

    def on_lines(self, connection: Connection, message: Message) -> None:
        """Print the lines of one worker."""
        _, pid, name, stream, lines = message
        if stream == STREAM:
            for text in lines:
                show_text(name, text)
            return
        prefix = f"({name or 'worker'} pid={pid}) "
        target = sys.stderr if stream == "stderr" else sys.stdout
        if target is None:
            return
        try:
            if target.isatty():
                prefix = f"\x1b[36m{prefix}\x1b[0m"
            target.write("".join(f"{prefix}{line}\n" for line in lines))
            target.flush()
        except (OSError, ValueError):
            return  # the driver closed its output
