"""Loggers that cost nothing until something is logged: structlog is imported for the first line, not before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

TRACEBACK_VARIABLE = "KERNEL_TRACEBACK"

_configure: Callable[[], None] | None = None
_configuring = threading.RLock()
"""Held while `_configure` runs: another thread that logs meanwhile waits for it."""
_debug = False


def configure_later(configure: Callable[[], None], debug: bool) -> None:
    """Call `configure` before the first line is logged; without `debug`, debug lines are dropped before that."""
    global _configure, _debug
    _configure = configure
    _debug = debug


def is_debug(level: int | str) -> bool:
    """Return whether debug lines are wanted at `level`."""
    return level <= 10 if isinstance(level, int) else level.lower() == "debug"


def shows_own_lines() -> bool:
    """Return whether tracebacks show the kernel's own lines, which help only to debug the kernel itself."""
    return _debug or os.environ.get(TRACEBACK_VARIABLE) == "1"


def configure_for_people(level: int | str) -> None:
    """Write lines of `level` and above to standard error, coloured on a terminal, unless structlog is set up."""
    import logging
    import sys

    import structlog

    if structlog.is_configured():
        return
    number = getattr(logging, level.upper(), logging.WARNING) if isinstance(level, str) else level
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


class Logger:
    """A structlog logger of one name, made when it is first needed."""

    __slots__ = ("_fields", "_logger", "_name")

    def __init__(self, name: str, **fields: Any) -> None:
        self._name = name
        self._fields = fields
        self._logger: Any = None

    def debug(self, event: str, **fields: Any) -> None:
        """Log a line that helps to debug the kernel."""
        if _debug:
            self._real().debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log a normal event."""
        self._real().info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that a user may want to act on."""
        self._real().warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        self._real().error(event, **fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a failure, with the exception that is being handled."""
        self._real().exception(event, **fields)

    def _real(self) -> Any:
        global _configure
        if self._logger is None:
            import structlog

            with _configuring:
                configure, _configure = _configure, None
                if configure is not None:
                    configure()
            self._logger = structlog.get_logger(self._name).bind(**self._fields)
        return self._logger


def _forget_other_threads() -> None:
    global _configuring
    _configuring = threading.RLock()  # the parent's may be held by a thread that does not exist in the child


os.register_at_fork(after_in_child=_forget_other_threads)
