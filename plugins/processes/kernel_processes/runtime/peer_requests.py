"""Requests to another process that are under way, as their sender keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.runtime.waiter import Waiter
from kernel_processes.transport.connection import Connection


class PeerRequest(Waiter):
    """A request under way. The answer is `value`, or an error if it has `failed`."""

    __slots__ = ("_error", "connection", "failed", "number", "value")

    def __init__(self, number: int, connection: Connection) -> None:
        super().__init__(1)
        self.number = number
        self.connection = connection
        self.value: Any = None
        self.failed = False
        self._error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        self._error = error
        self.failed = True
        self.complete()

    def take_error(self) -> Exception:
        """Return the error, once: what is raised holds the frames of its asker, which must not be held by these."""
        error, self._error = self._error, None
        assert error is not None
        return error


class AnsweredRequest(PeerRequest):
    """Calls `then(answer)`, which does not wait; nothing if there is no answer."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Any], None], number: int, connection: Connection) -> None:
        super().__init__(number, connection)
        self._then = then

    def complete(self) -> None:
        """Pass the answer on."""
        if not self.failed:
            self._then(self.value)


class WithdrawnRequest(PeerRequest):
    """Takes the place of a request whose sender does not wait any more: `undo` is called if it is granted."""

    __slots__ = ("_undo",)

    def __init__(self, request: PeerRequest, undo: Callable[[], None]) -> None:
        super().__init__(request.number, request.connection)
        self._undo = undo

    def complete(self) -> None:
        """Undo what was granted; an error leaves nothing to undo."""
        if not self.failed:
            self._undo()
