"""Logs: a line for each request (`access.py`), and what Serve and user code log, with its request.

Serve itself logs events with fields, by the standard library's loggers below `kernel.serve`. The program's
configuration of logging decides what is shown, and where. Replicas log as the `logging_config` of their deployment says
(`setup.py`); otherwise warnings and errors go to standard error.
"""

from __future__ import annotations

import logging
from typing import Any

NAME = "kernel.serve"


class EventLogger:
    """Logs events with fields: `log.warning("a replica is slow", replica=id)`. Tracebacks are kept as tracebacks."""

    __slots__ = ("_standard",)

    def __init__(self, name: str) -> None:
        self._standard = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        """Log a detail that helps to find faults."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log a normal event."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that a user may want to act on."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a failure, with the exception that is being handled."""
        self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._standard.isEnabledFor(level):
            exception = fields.pop("exc_info", None)
            said = " ".join(f"{name}={value!r}" for name, value in fields.items())
            self._standard.log(level, f"{event}: {said}" if said else event, exc_info=exception, stacklevel=3)


def logger(part: str = "") -> EventLogger:
    """Return the logger of a part of Serve, such as "rest"."""
    return EventLogger(f"{NAME}.{part}" if part else NAME)
