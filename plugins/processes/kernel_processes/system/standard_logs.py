"""Write records of the standard `logging`, which plugins use, to the log of a node agent or a head."""

from __future__ import annotations

import logging

from kernel.logs import Logger


def keep_standard_logs(level: str) -> None:
    """Send records of `logging` at `level` and above, from any module of this process, to this process's log."""
    root = logging.getLogger()
    root.setLevel(getattr(logging, level.upper(), logging.WARNING))
    root.addHandler(_ToOurs())


class _ToOurs(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = Logger(record.name)
        if record.levelno >= logging.ERROR:
            say = log.error
        elif record.levelno >= logging.WARNING:
            say = log.warning
        else:
            say = log.info if record.levelno >= logging.INFO else log.debug
        try:
            say(record.getMessage(), logger=record.name, exc_info=record.exc_info)
        except Exception:
            self.handleError(record)
