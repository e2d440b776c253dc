"""Log records of user code, with the request and the replica that they belong to."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import MutableMapping, Sequence
from typing import Any

from kernel_serve.context import current_request, replica_of_process

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_ADDED = ("request_id", "route", "application", "deployment", "replica")


class RequestFilter(logging.Filter):
    """Adds `request_id`, `route`, `application`, `deployment` and `replica` to each record. It drops no records.

    For handlers of your own: `handler.addFilter(RequestFilter())`, then `%(request_id)s` in the format.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is known in the context of the record; return True."""
        request, replica = current_request(), replica_of_process()
        record.request_id = request.request_id
        record.route = request.route
        record.application = replica.app_name if replica is not None else request.application
        record.deployment = replica.deployment if replica is not None else request.deployment
        record.replica = replica.replica_id if replica is not None else ""
        return True


def add_request(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the same to an event of structlog: a processor for `structlog.configure(processors=[add_request, ...])`."""
    request, replica = current_request(), replica_of_process()
    event.setdefault("request_id", request.request_id)
    if replica is not None:
        event.setdefault("deployment", replica.deployment)
        event.setdefault("replica", replica.replica_id)
    return event


class TextFormatter(logging.Formatter):
    """Formats records as lines for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(replica)s%(request)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and a traceback below."""
        id = getattr(record, "request_id", "")
        record.request = f" {id}" if id else ""
        return super().format(record)


class JSONFormatter(logging.Formatter):
    """Formats records as JSON, an object a line: time, level, logger, message, context, `extra=`, and `attributes`."""

    def __init__(self, attributes: Sequence[str] = ()) -> None:
        super().__init__()
        self._attributes = tuple(attributes)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        said.update({name: value for name in _ADDED if (value := getattr(record, name, ""))})
        said["file"], said["line"] = record.filename, record.lineno
        said.update({name: getattr(record, name, None) for name in self._attributes})
        for name, value in vars(record).items():
            if name not in _OWN and name not in said and name not in _ADDED and name != "request":
                said[name] = value
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)
