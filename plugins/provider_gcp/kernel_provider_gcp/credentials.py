"""A token for Google's services, by the credentials that google-auth finds."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import google.auth
from google.auth import exceptions, transport

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
ANSWER_SECONDS = 30.0


class UrllibResponse(transport.Response):  # type: ignore[misc]
    """An answer, as google-auth wants it."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self._said = status, headers, data

    @property
    def status(self) -> int:
        """Return the status of HTTP."""
        return self._said[0]

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers."""
        return self._said[1]

    @property
    def data(self) -> bytes:
        """Return the body."""
        return self._said[2]


class UrllibRequest(transport.Request):  # type: ignore[misc]
    """Makes google-auth's calls with the standard library."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> UrllibResponse:
        """Return the answer of a call. Raises TransportError where none comes."""
        asked = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
        try:
            with urllib.request.urlopen(asked, timeout=timeout or ANSWER_SECONDS) as answer:
                return UrllibResponse(answer.status, _lower(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return UrllibResponse(error.code, _lower(error.headers), error.read())
        except OSError as error:
            raise exceptions.TransportError(str(error)) from error  # type: ignore[no-untyped-call]


def _lower(headers: Any) -> dict[str, str]:
    """Return headers under the names by which google-auth looks for them."""
    return {name.lower(): value for name, value in headers.items()}


class ApplicationCredentials:
    """The application default credentials: of a service account's file, of `gcloud auth`, or of the machine."""

    def __init__(self) -> None:
        self._found: Any = None

    def token(self) -> str:
        """Return a token that is valid now. Raises NodeProviderError, code `credentials`."""
        try:
            if self._found is None:
                self._found, _ = google.auth.default(scopes=[SCOPE], request=UrllibRequest())
            if not self._found.valid:
                self._found.refresh(UrllibRequest())
        except exceptions.GoogleAuthError as error:
            raise NodeProviderError(
                f"Google: no credentials: {error}; give the head a service account, or run "
                "`gcloud auth application-default login`",
                code=CREDENTIALS,
            ) from error
        return str(self._found.token)
