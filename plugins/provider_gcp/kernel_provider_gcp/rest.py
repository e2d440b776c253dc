"""Calls of Google's services: JSON over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from kernel_provider_gcp.errors import GoogleError, refused
from kernel_spec.providers import UNKNOWN

COMPUTE = "https://compute.googleapis.com/compute/v1"
SECRETS = "https://secretmanager.googleapis.com/v1"
ANSWER_SECONDS = 60.0


class GivesTokens(Protocol):
    """Has credentials."""

    def token(self) -> str:
        """Return a token that is valid now."""
        ...


class GoogleRest:
    """Calls the services at `compute` and `secrets`. Nothing is repeated: the autoscaler does that."""

    def __init__(self, credentials: GivesTokens, compute: str = COMPUTE, secrets: str = SECRETS) -> None:
        self._credentials = credentials
        self.compute = compute
        self.secrets = secrets

    def call(
        self, what: str, method: str, url: str, body: Mapping[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        """Return an answer. `what` is done by the call, for people. Raises GoogleError, NodeProviderError."""
        place = urlsplit(url)
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        connection = kind(place.netloc, timeout=ANSWER_SECONDS)
        target = place.path + (f"?{urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self._credentials.token()}", "Content-Type": "application/json"}
        try:
            connection.request(method, target, None if body is None else json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            text = f"Google: can't {what}: {type(error).__name__}: {error}"
            raise GoogleError(text, UNKNOWN, 0, "") from error
        finally:
            connection.close()
        try:
            said: dict[str, Any] = json.loads(data or b"{}")
        except ValueError:
            said = {"error": {"message": data[:200].decode(errors="replace")}}
        if answer.status >= 300:
            raise refused(what, answer.status, said, answer.getheader("Retry-After"))
        return said

    def pages(self, what: str, url: str, **query: str) -> Iterator[dict[str, Any]]:
        """Return the pages of a list."""
        while True:
            page = self.call(what, "GET", url, None, **query)
            yield page
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]
