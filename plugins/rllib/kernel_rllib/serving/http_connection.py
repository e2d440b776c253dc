"""One connection to a server of HTTP/1.1, on which requests follow one another."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from kernel_rllib.serving.http_requests import BadRequestError, read_headers

_NO_BODY = (204, 304)


class ConnectionLostError(Exception):
    """The connection has ended, or what came on it is no response."""


class HttpConnection:
    """Sends requests and reads responses, one after another. It is open from when it is made."""

    def __init__(self, host: str, port: int, timeout: float | None) -> None:
        """Connect.

        Args:
            host: The name or address of the server.
            port: Its port.
            timeout: The number of seconds that an answer may take; None for any.

        Raises:
            OSError: If it can't be reached.
        """
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.is_open = True
        """Whether a further request can follow."""

    def request(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """Return the status of the response, the content type without parameters, and the body.

        Raises:
            OSError: If the connection has ended.
            ConnectionLostError: If it ended in the midst of the response, or that is none.
        """
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        try:
            status = self._status()
            while status < 200:  # "go on", and the like
                read_headers(self._file)
                status = self._status()
            found = read_headers(self._file)
            content = b"" if status in _NO_BODY else self._body(found)
        except (BadRequestError, ValueError) as error:
            raise ConnectionLostError(f"what it answered is no response of HTTP: {error}") from error
        if found.get("connection", "").lower() == "close":
            self.close()
        return status, found.get("content-type", "").partition(";")[0].strip().lower(), content

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._file.close()
        self._socket.close()

    def _status(self) -> int:
        line = self._file.readline(1 << 16)
        if not line:
            raise ConnectionLostError("it has closed the connection without an answer")
        version, _, rest = line.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError(f"it begins with {line[:80]!r}")
        return int(rest[:3])

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():  # a proxy between may send it so
            parts: list[bytes] = []
            while size := int(self._file.readline(1 << 16).partition(b";")[0], 16):
                parts.append(self._read(size))
                self._file.readline(1 << 16)
            read_headers(self._file)
            return b"".join(parts)
        if "content-length" in headers:
            return self._read(int(headers["content-length"]))
        self.is_open = False
        return self._file.read()

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise ConnectionLostError(f"it has closed the connection after {len(data)} of {size} bytes")
        return data
