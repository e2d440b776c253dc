"""The coordinator: one list of hosts that several users share. It leases them, by JSON over HTTP, and reaches none.

Each request is a POST to `/v1/CALL` with a JSON object, and `Authorization: Bearer TOKEN`. An answer is an object with
`result`, or with `error` (`code`, `message`).
"""

from __future__ import annotations

import hmac
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kernel_provider_local.leases import LeaseTable
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID

MAXIMUM_BYTES = 1 << 20
REQUEST_SECONDS = 10.0
"""Seconds for which a request may make a connection wait."""


class CoordinatorServer(ThreadingHTTPServer):
    """Serves `table` at `address` to those who know `token`. `context` is for TLS. Port 0 is any free one."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], table: LeaseTable, token: str, context: ssl.SSLContext | None = None
    ) -> None:
        self.table = table
        self.token = token
        self._context = context
        super().__init__(address, CoordinatorRequest)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, in a thread of its own, where also its TLS begins."""
        request.settimeout(REQUEST_SECONDS)
        if self._context is not None:
            request = self._context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke."""


class CoordinatorRequest(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    server: CoordinatorServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "kernel-coordinator", ""

    def do_POST(self) -> None:
        """Answer a call."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            self._answer_error(401, CREDENTIALS, "the coordinator's token is missing or wrong")
            return
        try:
            call = _calls(self.server.table).get(self.path.removeprefix("/v1/"))
            if call is None:
                self._answer_error(404, INVALID, f"there is no {self.path}; perhaps the coordinator is older")
                return
            result = call(self._body())
        except NodeProviderError as error:
            self._answer_error(409, error.code, str(error))
        except (KeyError, TypeError, ValueError) as error:
            self._answer_error(400, INVALID, f"the request can't be read: {type(error).__name__}: {error}")
        else:
            self._answer(200, {"result": result})

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""

    def _body(self) -> Mapping[str, Any]:
        length = int(self.headers.get("Content-Length", "-1"))
        if not 0 <= length <= MAXIMUM_BYTES:
            raise ValueError(f"its Content-Length is {length}, not from 0 to {MAXIMUM_BYTES}")
        body = json.loads(self.rfile.read(length))
        if not isinstance(body, dict):
            raise ValueError("it is not a JSON object")
        return body

    def _answer_error(self, status: int, code: str, message: str) -> None:
        self.close_connection = True
        self._answer(status, {"error": {"code": code, "message": message}})

    def _answer(self, status: int, said: Mapping[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _calls(table: LeaseTable) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
    return {
        "kinds": lambda said: {name: asdict(kind) for name, kind in table.kinds().items()},
        "of_cluster": lambda said: [asdict(one) for one in table.of_cluster(_text(said, "cluster"))],
        "take": lambda said: [
            asdict(one)
            for one in table.take(
                _text(said, "cluster"), _text(said, "kind"), int(said["count"]), _text(said, "token", empty=True)
            )
        ],
        "end": lambda said: table.end(_text(said, "cluster"), _texts(said, "ids")),
        "release": lambda said: table.release(_text(said, "cluster"), _texts(said, "ids"), bool(said.get("failed"))),
    }


def _text(said: Mapping[str, Any], name: str, empty: bool = False) -> str:
    value = said[name]
    if not isinstance(value, str) or not (value or empty):
        raise ValueError(f"{name} must be a text, not {value!r}")
    return value


def _texts(said: Mapping[str, Any], name: str) -> list[str]:
    value = said[name]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} must be a list of texts, not {value!r}")
    return value
