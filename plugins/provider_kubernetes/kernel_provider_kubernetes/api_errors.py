"""Turn what an API server refuses into the errors of node providers: pure, from its status, text and headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN

CONFLICT_SECONDS = 1.0
"""Seconds after which a call is tried again whose object somebody else changed at the same time."""


class ApiServerError(NodeProviderError):
    """The API server has answered a request with an error. `status` is the HTTP status, `reason` Kubernetes' word."""

    def __init__(self, text: str, *, status: int, reason: str, code: str, retry_after: float | None) -> None:
        super().__init__(text, code=code, retry_after=retry_after)
        self.status = status
        self.reason = reason


def error_of(call: str, status: int, answer: Mapping[str, Any], headers: Mapping[str, str]) -> ApiServerError:
    """Return the error for the answer to `call`, which is shown. `headers` have small letters."""
    said = str(answer.get("message") or "no reason was given")
    reason = str(answer.get("reason") or "")
    code, advice = _meaning(status, reason, said)
    retry_after = _retry_after(answer, headers) if code in (THROTTLED, UNKNOWN) else None
    if status == 409 and code == THROTTLED:
        retry_after = CONFLICT_SECONDS
    return ApiServerError(
        f"Kubernetes refused {call} with {status} {reason}".rstrip() + f": {said}{advice}",
        status=status, reason=reason, code=code, retry_after=retry_after,
    )  # fmt: skip


def _meaning(status: int, reason: str, said: str) -> tuple[str, str]:
    """Return the code of a refusal, and what to do about it."""
    if status == 401:
        return CREDENTIALS, "; the credentials are not accepted: log in again, or look at the kubeconfig's user"
    if status == 403 and "exceeded quota" in said:
        return QUOTA, "; raise the quota of the namespace, or maximum_nodes of the autoscaler lower than it"
    if status == 403 and " cannot " in said:
        return CREDENTIALS, "; its role lacks this: docs/kubernetes.md has the role that the provider needs"
    if status == 429:
        return THROTTLED, ""
    if status == 409 and "resourcequotas" in said:
        return THROTTLED, ""
    if status in (400, 403, 404, 405, 409, 413, 415, 422):
        return INVALID, ""
    return UNKNOWN, ""


def _retry_after(answer: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    details = answer.get("details")
    given = headers.get("retry-after") or (details.get("retryAfterSeconds") if isinstance(details, Mapping) else None)
    try:
        return float(given) if given is not None else None
    except (TypeError, ValueError):  # A date: rare, and a guess would be no better than none.
        return None
