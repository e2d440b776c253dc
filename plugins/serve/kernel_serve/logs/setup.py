"""Apply a deployment's `logging_config` in a replica."""

from __future__ import annotations

import logging
import os

from kernel_serve.logs.places import directory, file_name
from kernel_serve.logs.records import JSONFormatter, RequestFilter, TextFormatter
from kernel_serve.logs.rotating import FILE_BYTES, FILES
from kernel_serve.settings import LoggingConfig

LOGGERS = ("kernel.serve", "ray.serve")
"""The loggers that replicas configure, with those below them, such as `kernel.serve.mine`."""


def configure_logging(config: LoggingConfig, replica: str) -> None:
    """Have the loggers of user code write as `config` says, and nowhere else.

    Lines go to standard error, which kernel keeps in the session's logs and shows to waiting programs. With `logs_dir`
    they also go to a file of this replica there. Raises OSError for a directory that can't be used.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if config.logs_dir:
        from logging.handlers import RotatingFileHandler

        path = os.path.join(directory(config.logs_dir), f"{file_name(replica)}.log")
        handlers.append(RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8"))
    formatter = JSONFormatter(config.additional_log_standard_attrs) if config.encoding == "JSON" else TextFormatter()
    for handler in handlers:
        handler.addFilter(RequestFilter())
        handler.setFormatter(formatter)
    before = {id(handler): handler for name in LOGGERS for handler in logging.getLogger(name).handlers}
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = list(handlers)
        logger.setLevel(config.level_number)
        logger.propagate = False
    for handler in before.values():
        handler.close()
