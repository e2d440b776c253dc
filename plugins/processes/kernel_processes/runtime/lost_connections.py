"""Find out whether a peer has ended whose connection to this process broke, and which should dial again.

The side that dialled finds out by dialling again. The other side only sees a broken socket: it asks its agent, which is
notified of every process that has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernel_processes.transport.connection import Connection
from kernel_spec.ids import ProcessId

_FIRST_SECONDS, _LATER_SECONDS = 0.02, 0.25
"""Seconds from a cut to the first question to the agent, and between later ones: its news may be on the way."""


class LostConnections:
    """Watches the incoming connections of a process. Under its lock, or in its loop.

    `call_later(seconds, function)` is its loop's. `ask_whether_ended(peer, then)` asks the agent, which calls
    `then(ended)`; it returns False where there is no agent to ask.
    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        ask_whether_ended: Callable[[ProcessId, Callable[[bool], None]], bool],
    ) -> None:
        self._call_later = call_later
        self._ask_whether_ended = ask_whether_ended

    def watch(self, connection: Connection) -> None:
        """Watch a connection that another process has opened."""
        if connection.incoming:
            connection.when_cut(lambda: self._ask_later(connection, _FIRST_SECONDS))

    def _ask_later(self, connection: Connection, seconds: float) -> None:
        self._call_later(seconds, lambda: self._ask(connection))

    def _ask(self, connection: Connection) -> None:
        if _is_cut(connection) and self._ask_whether_ended(connection.info.id, partial(self._answered, connection)):
            self._ask_later(connection, _LATER_SECONDS)

    def _answered(self, connection: Connection, ended: bool) -> None:
        if ended and _is_cut(connection):
            connection.give_up("the peer has ended")


def _is_cut(connection: Connection) -> bool:
    return connection.fd < 0 and not connection.closed
