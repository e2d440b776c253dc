"""The status and headers of an answer to a request that was not served."""

from __future__ import annotations

from kernel_serve.errors import (
    BackPressureError,
    DeploymentUnavailableError,
    NotServingError,
    ReplicasDiedError,
    RequestCancelledError,
    RequestError,
    RequestTimeoutError,
    ServeError,
)

CLIENT_GONE = 499
"""The status in logs and metrics of a request whose client went away. Clients never get it."""
_BUSY_SECONDS, _AWAY_SECONDS = 1, 2
"""Seconds after which a client may try again: when a deployment is busy, and when nothing can serve."""
CALLS_FAIL = (BackPressureError, DeploymentUnavailableError, ReplicasDiedError, RequestTimeoutError)
"""Errors of downstream calls by handles. Uncaught in user code, they become the status of its own request."""
_CODES: tuple[tuple[type[ServeError], int], ...] = (
    (NotServingError, 5),
    (BackPressureError, 8),
    (RequestTimeoutError, 4),
    (RequestCancelledError, 1),
    (DeploymentUnavailableError, 14),
)
_INTERNAL = 13


class TooLargeError(RequestError):
    """The body of a request is larger than it may be: status 413."""


def status_of(error: ServeError) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the HTTP status for an error, and the headers that belong to it."""
    if isinstance(error, RequestCancelledError):
        return CLIENT_GONE, []
    if isinstance(error, TooLargeError):
        return 413, []
    if isinstance(error, RequestTimeoutError):
        return 408, []
    if isinstance(error, NotServingError):
        return 404, []
    if isinstance(error, ReplicasDiedError):
        return 500, []
    seconds = _BUSY_SECONDS if isinstance(error, BackPressureError) else _AWAY_SECONDS
    return 503, [(b"retry-after", str(seconds).encode())]


def code_of(error: ServeError) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Return the number of the gRPC status for an error, and the metadata that belong to it."""
    code = next((code for base, code in _CODES if isinstance(error, base)), _INTERNAL)
    if isinstance(error, BackPressureError):  # gRPC's Retry-After, for clients that repeat calls by themselves
        return code, (("grpc-retry-pushback-ms", str(_BUSY_SECONDS * 1000)),)
    return code, ()
