"""The context of a gRPC call for a deployment's method, to read and to set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from kernel_serve.rpc.messages import OK, UNKNOWN, Metadata


class AbortError(Exception):
    """Ends a call with the status that its context has."""


class GRPCContext:
    """The context of one call. Codes are `grpc.StatusCode`s, or their numbers. It may be used from any thread."""

    def __init__(self, metadata: Metadata, seconds: float | None, peer: str, is_over: Callable[[], bool]) -> None:
        self._metadata = metadata
        self._until = None if seconds is None else time.monotonic() + seconds
        self._peer = peer
        self._is_over = is_over
        self._code: Any = None
        self._details = ""
        self._trailing: Metadata = ()

    def set_code(self, code: Any) -> None:
        """Set the status with which the call ends."""
        self._code = code

    def set_details(self, details: str) -> None:
        """Set the text of the status."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> None:
        """Set the pairs to send after the answer."""
        self._trailing = tuple((str(key), value) for key, value in trailing_metadata)

    def code(self) -> Any:
        """Return the status that was set, or None."""
        return self._code

    def details(self) -> str:
        """Return the text that was set."""
        return self._details

    def trailing_metadata(self) -> Metadata:
        """Return the pairs that were set."""
        return self._trailing

    def invocation_metadata(self) -> Metadata:
        """Return the pairs that the client sent."""
        return self._metadata

    def peer(self) -> str:
        """Return the address of the client, as the proxy sees it."""
        return self._peer

    def time_remaining(self) -> float | None:
        """Return the seconds until the client's deadline; None if it has none."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def cancelled(self) -> bool:
        """Return whether the client no longer waits for the answer."""
        return self._is_over()

    def is_active(self) -> bool:
        """Return whether the client still waits for the answer."""
        return not self._is_over()

    def abort(self, code: Any, details: str = "") -> NoReturn:
        """End the call at once, with a status other than OK. Raises AbortError, which does so."""
        self._code = code
        if self.code_number() == OK:
            self._code, details = UNKNOWN, details or "abort() was called with the code OK"
        self._details = details
        raise AbortError(f"the call was ended with status {self._code}: {details}")

    def code_number(self) -> int:
        """Return the status as a number."""
        code = self._code
        if code is None:
            return OK
        return int(code) if isinstance(code, int) else int(code.value[0])
