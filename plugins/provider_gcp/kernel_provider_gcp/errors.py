"""What an error of Google's services means to an autoscaler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN

THROTTLE_SECONDS = 5.0
_REASONS = {
    **dict.fromkeys(("quotaExceeded", "QUOTA_EXCEEDED", "limitExceeded"), QUOTA),
    **dict.fromkeys(("rateLimitExceeded", "userRateLimitExceeded", "concurrentLimitExceeded"), THROTTLED),
    **dict.fromkeys(("RATE_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"), THROTTLED),
    **dict.fromkeys(
        ("forbidden", "authError", "accessNotConfigured", "PERMISSION_DENIED", "UNAUTHENTICATED"), CREDENTIALS
    ),
    **dict.fromkeys(("PERMISSIONS_ERROR", "billingDisabled", "SERVICE_DISABLED"), CREDENTIALS),
    **dict.fromkeys(("resourceNotAvailable", "UNSUPPORTED_OPERATION", "RESOURCE_POOL_EXHAUSTED"), CAPACITY),
}
_STATUSES = {400: INVALID, 401: CREDENTIALS, 403: CREDENTIALS, 404: INVALID, 409: INVALID, 412: INVALID, 429: THROTTLED}


class GoogleError(NodeProviderError):
    """A refused call. `status` is that of HTTP, 0 where no answer came; `reason` is Google's word."""

    def __init__(self, text: str, code: str, status: int, reason: str, retry_after: float | None = None) -> None:
        super().__init__(text, code=code, retry_after=retry_after)
        self.status = status
        self.reason = reason


def refused(what: str, status: int, said: Mapping[str, Any], retry_after: str | None) -> GoogleError:
    """Return the error for an answer of HTTP that is not 2xx: `what` could not be done."""
    error = said.get("error", {})
    error = error if isinstance(error, Mapping) else {"message": str(error)}
    inner = (error.get("errors") or [{}])[0]
    reason = str(inner.get("reason") or error.get("status") or "")
    code = _code_of(reason) or _STATUSES.get(status, UNKNOWN)
    pause = None
    if code == THROTTLED:
        pause = float(retry_after) if retry_after and retry_after.isdigit() else THROTTLE_SECONDS
    text = f"Google: can't {what}: {status} {reason}: {error.get('message', '')}"
    return GoogleError(text, code, status, reason, pause)


def failed(what: str, operation: Mapping[str, Any]) -> GoogleError | None:
    """Return the error of an operation that has ended with one; None where it has none."""
    errors = operation.get("error", {}).get("errors", [])
    if not errors:
        return None
    reason, message = str(errors[0].get("code", "")), errors[0].get("message", "")
    status = int(operation.get("httpErrorStatusCode", 0))
    code = _code_of(reason) or _STATUSES.get(status, UNKNOWN)
    return GoogleError(f"Google: can't {what}: {reason}: {message}", code, status, reason)


def _code_of(reason: str) -> str | None:
    if reason.startswith("ZONE_RESOURCE_POOL_EXHAUSTED"):
        return CAPACITY
    return _REASONS.get(reason)
