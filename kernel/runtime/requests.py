"""Questions to another process that are on their way, as their asker keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.runtime.waiting import Waiter
from kernel.transport.connection import Connection


class Request(Waiter):
    """A question on its way. `value` or `error` is the answer."""

    __slots__ = ("connection", "error", "number", "value")

    def __init__(self, number: int, connection: Connection) -> None:
        super().__init__(1)
        self.number = number
        self.connection = connection
        self.value: Any = None
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        self.error = error
        self.complete()


class WithdrawnRequest(Request):
    """Takes the place of a question whose asker has gone away: what it is granted yet is undone."""

    __slots__ = ("_undo",)

    def __init__(self, request: Request, undo: Callable[[], None]) -> None:
        super().__init__(request.number, request.connection)
        self._undo = undo

    def complete(self) -> None:
        """Undo what was granted; an error leaves nothing to undo."""
        if self.error is None:
            self._undo()
