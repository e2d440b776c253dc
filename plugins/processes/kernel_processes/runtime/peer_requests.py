"""Keep pending requests to other processes, for the process that sent them."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.transport.connection import Connection
from kernel_spec.errors import SessionEndedError


class PeerRequest(Waiter):
    """Holds a pending request. The answer is `value`, or an error if the request has `failed`."""

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
    """Calls `then(answer)`, which must not wait, and calls nothing if there is no answer."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Any], None], number: int, connection: Connection) -> None:
        super().__init__(number, connection)
        self._then = then

    def complete(self) -> None:
        """Pass the answer on."""
        if not self.failed:
            self._then(self.value)


class WithdrawnRequest(PeerRequest):
    """Replaces a request whose sender no longer waits: `undo` is called if the request is granted."""

    __slots__ = ("_undo",)

    def __init__(self, request: PeerRequest, undo: Callable[[], None]) -> None:
        super().__init__(request.number, request.connection)
        self._undo = undo

    def complete(self) -> None:
        """Undo what was granted; an error leaves nothing to undo."""
        if not self.failed:
            self._undo()


class PeerRequests:
    """Holds the requests of a process that have no answer yet. Under its lock."""

    def __init__(self) -> None:
        self._open: dict[int, PeerRequest] = {}
        self._numbers = itertools.count(1)

    def begin(
        self, connection: Connection, kind: Callable[[int, Connection], PeerRequest] = PeerRequest
    ) -> PeerRequest:
        """Return a new request, whose number the caller puts into a message to the peer at the other end."""
        number = next(self._numbers)
        request = self._open[number] = kind(number, connection)
        return request

    def on_reply(self, connection: Connection, message: Message) -> None:
        """A peer has answered."""
        request = self._open.pop(message[1], None)
        if request is None:
            return
        if message[0] == op.REPLY_ERROR:
            request.fail(pickle.loads(message[2]))
            return
        request.value = message[2] if message[0] == op.REPLY else Pickled(message[2])
        request.complete()

    def forget(self, request: PeerRequest) -> None:
        """Drop a request whose sender no longer waits for the answer. May be called without the lock."""
        self._open.pop(request.number, None)

    def withdraw(self, request: PeerRequest, undo: Callable[[], None]) -> None:
        """Withdraw a request whose answer is not wanted any more: `undo` is called if it was, or still is, granted."""
        if request.remaining > 0:
            self._open[request.number] = WithdrawnRequest(request, undo)
        elif not request.failed:
            undo()

    def fail(self, reason: str, connection: Connection | None = None) -> None:
        """End the waits for answers that were to come over a connection (None: any) with SessionEndedError."""
        for number, request in list(self._open.items()):
            if connection is None or request.connection is connection:
                del self._open[number]
                request.fail(SessionEndedError(reason))
