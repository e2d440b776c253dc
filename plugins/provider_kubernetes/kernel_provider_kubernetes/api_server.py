"""Call an API server: JSON over HTTP, with the standard library."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from kernel_provider_kubernetes.access import ServerAccess
from kernel_provider_kubernetes.api_errors import error_of
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import UNKNOWN

CALL_SECONDS = 30.0
WATCH_SECONDS = 300
"""Seconds for which the server is asked to let one watch run."""
SILENT_SECONDS = WATCH_SECONDS + 30.0
_MERGE = "application/merge-patch+json"


class ApiServer:
    """Calls the server of `access` over one connection that is kept; use one for each thread."""

    def __init__(self, access: ServerAccess) -> None:
        self.access = access
        self._url = urlsplit(access.server)
        self._kept: http.client.HTTPConnection | None = None
        self._watching: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return what is at `path`. This and its sisters raise NodeProviderError."""
        return self._call("GET", path, query)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make an object below `path`, and return it as the server has it."""
        return self._call("POST", path, None, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Put `body` in the place of what is at `path`, and return it."""
        return self._call("PUT", path, None, body)

    def change(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `body` into what is at `path`, and return the whole."""
        return self._call("PATCH", path, None, body, _MERGE)

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Begin to remove what is at `path`; return it, or a status."""
        return self._call("DELETE", path, None, body)

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch, until the server ends it. Raises NodeProviderError."""
        all = {**query, "watch": "true", "timeoutSeconds": str(WATCH_SECONDS), "allowWatchBookmarks": "true"}
        connection = self._connect(SILENT_SECONDS)
        with self._lock:
            if self._closed:
                return
            self._watching = connection
        try:
            connection.request("GET", self._target(path, all), headers=self._headers())
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(f"watch {path}", answer, answer.read())
            for line in answer:
                if line.strip():
                    yield json.loads(line)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._lost("GET", path, error) from None
        finally:
            self._watching = None
            connection.close()

    def close(self) -> None:
        """End a watch, which may run in another thread, and let no other begin."""
        with self._lock:
            self._closed = True
            watching = self._watching
        held = watching.sock if watching is not None else None
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        type: str = "application/json",
    ) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = self._headers() | ({"Content-Type": type} if data else {})
        answer, text = self._exchange(method, path, self._target(path, query), data, headers)
        if answer.status >= 400:
            raise _refusal(f"{method} {path}", answer, text)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise NodeProviderError(f"{self.access.server} answered {method} {path} with no JSON: {error}") from None
        return found

    def _exchange(
        self, method: str, path: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request and read its answer; once more, if the connection was kept and the server had left it.

        That is safe: what is made has a name, so it is not made twice.
        """
        while True:
            kept, self._kept = self._kept, None
            connection = kept or self._connect(CALL_SECONDS)
            try:
                connection.request(method, target, data, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if kept is None or isinstance(error, TimeoutError):
                    raise self._lost(method, path, error) from None
                continue
            if answer.will_close:
                connection.close()
            else:
                self._kept = connection
            return answer, text

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self.access.tls is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        if self.access.server_name:
            return _NamedConnection(host, port, timeout=seconds, context=self.access.tls, name=self.access.server_name)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self.access.tls)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "kernel-provider-kubernetes"}
        try:
            authorization = self.access.authorization()
        except OSError as error:
            raise NodeProviderError(f"the token can't be read: {error}", code="credentials") from None
        return headers | ({"Authorization": authorization} if authorization else {})

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return self._url.path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")

    def _lost(self, method: str, path: str, error: Exception) -> NodeProviderError:
        return NodeProviderError(
            f"{self.access.server} did not answer {method} {path}: {type(error).__name__}: {error}", code=UNKNOWN
        )


class _NamedConnection(http.client.HTTPSConnection):
    """A connection whose certificate names another host than the one it goes to."""

    def __init__(self, host: str, port: int | None, *, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _refusal(call: str, answer: http.client.HTTPResponse, text: bytes) -> NodeProviderError:
    try:
        said = json.loads(text)
    except ValueError:  # of something between us and the server
        said = {"message": text.decode(errors="replace").strip()[:500]}
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return error_of(call, answer.status, said if isinstance(said, dict) else {}, headers)
