"""What a client is told when its request was not served."""

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
"""The status that logs show for a request whose client went away. No client sees it."""
_BUSY_SECONDS, _AWAY_SECONDS = 1, 2
"""After how long a client may well try again."""
CALLS_FAIL = (BackPressureError, DeploymentUnavailableError, ReplicasDiedError, RequestTimeoutError)
"""What calls of handles raise. Who does not catch it, has not served a request of its own for that reason."""
_CODES: tuple[tuple[type[ServeError], int], ...] = (
    (NotServingError, 5),
    (BackPressureError, 8),
    (RequestTimeoutError, 4),
    (RequestCancelledError, 1),
    (DeploymentUnavailableError, 14),
)
_INTERNAL = 13


class TooLargeError(RequestError):
    """The body of a request is larger than it may be: 413."""


def status_of(error: ServeError) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the HTTP status for a failure, and headers that belong to it."""
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
    """Return the number of gRPC's status for a failure, and metadata that belong to it."""
    code = next((code for base, code in _CODES if isinstance(error, base)), _INTERNAL)
    if isinstance(error, BackPressureError):  # as HTTP's Retry-After, for clients that repeat calls by themselves
        return code, (("grpc-retry-pushback-ms", str(_BUSY_SECONDS * 1000)),)
    return code, ()
