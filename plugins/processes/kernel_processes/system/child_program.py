"""Begin a program that `children.start_child` has started: read the settings, open the log, report.

The settings arrive pickled on standard input, which stays open until the program that started this one has ended.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from kernel_processes.system.descriptor_limit import raise_limit
from kernel_processes.system.log_writer import LogWriter
from kernel_processes.system.processes import ignore_terminal_signals, set_title
from kernel_processes.system.rotating_file import RotatingFile

LOG_BYTES = 4 << 20
"""Size in bytes at which a new log file is started; one older file is kept."""


def begin(title: str) -> tuple[int, Any, int]:
    """Read the settings of this process, and set its title, signals and limits.

    Returns:
        The descriptor for `report`, the settings (which have the `directory` of a session), and a pipe that is closed
        when the program that started this one ends.
    """
    ready = int(sys.argv[1])
    config = pickle.load(sys.stdin.buffer)
    starter = os.dup(sys.stdin.fileno())
    sys.stdin.close()
    set_title(title, config.directory)
    ignore_terminal_signals()
    raise_limit()
    return ready, config, starter


def configure_logging(path: str, log_level: str) -> None:
    """Write log records of this process at `log_level` and above to the file at `path`."""
    import atexit
    import logging

    import structlog

    log = LogWriter(RotatingFile(path, LOG_BYTES, 2))
    atexit.register(log.close)
    level = getattr(logging, log_level.upper(), logging.WARNING)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(log),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )


def report(ready: int, outcome: Any) -> None:
    """Report to the process that started this one: `outcome` is None when this one serves, otherwise the error."""
    os.write(ready, pickle.dumps(outcome))
    os.close(ready)
