"""A client of SigOpt's HTTP API, version 1: experiments, suggestions, observations.

Requests and answers are JSON. The token is the user of HTTP basic authentication, with an empty password. A refusal has
a status of 400 or more and `{"error": {"message": ...}}`. Lists come in pages, newest first.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from kernel_tune.errors import TuneError

API_URL = "https://api.sigopt.com"
PAGE = 100
"""The number of objects of a page of a list."""


class SigOptError(TuneError):
    """SigOpt refused a request, or could not be reached. `status` is that of its answer, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class SigOptClient:
    """Sends requests to SigOpt, or to a server with the same API (`api_url`, or SIGOPT_API_URL in the environment).

    `token` is that of the API, by default SIGOPT_KEY or SIGOPT_API_TOKEN in the environment. It is not pickled: an
    unpickled client takes it from the environment. Each request waits at most `timeout` seconds. Raises SigOptError.
    """

    def __init__(self, token: str | None = None, api_url: str | None = None, timeout: float = 150.0) -> None:
        self._token = token or _token_of_environment()
        self._require_token()
        self._url = (api_url or os.environ.get("SIGOPT_API_URL") or API_URL).rstrip("/")
        self._timeout = timeout

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_token": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _token=_token_of_environment())

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object: `create("experiments", {...})`. Return it as SigOpt stores it."""
        return self._ask("POST", path, body)

    def fetch(self, path: str) -> dict[str, Any]:
        """Return an object: `fetch("experiments/1")`."""
        return self._ask("GET", path)

    def list(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of a list, newest first: `list("experiments/1/observations")`."""
        before = None
        while True:
            options = {"limit": str(PAGE), **({"before": before} if before else {})}
            page = self._ask("GET", f"{path}?{urllib.parse.urlencode(options)}")
            yield from page["data"]
            before = (page.get("paging") or {}).get("before")
            if not before:
                return

    def _require_token(self) -> None:
        if not self._token:
            raise SigOptError("SigOptSearch has no API token: put it into the environment, as SIGOPT_KEY")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self._require_token()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/v1/{path}", data, method=method)
        credentials = base64.b64encode(f"{self._token}:".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
        request.add_header("Content-Type", "application/json")
        what = f"{method} {path.partition('?')[0]}"
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                received: dict[str, Any] = json.loads(answer.read())
                return received
        except urllib.error.HTTPError as error:
            said = _message(error.read())
            raise SigOptError(f"SigOpt refused {what} with status {error.code}: {said}", error.code) from error
        except (OSError, ValueError) as error:  # no connection, or an answer that is not JSON
            raise SigOptError(f"SigOpt at {self._url} did not answer {what}: {error}") from error


def _token_of_environment() -> str | None:
    return os.environ.get("SIGOPT_KEY") or os.environ.get("SIGOPT_API_TOKEN")


def _message(body: bytes) -> str:
    """Return the message of a refusal."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200] or "it gave no reason"
