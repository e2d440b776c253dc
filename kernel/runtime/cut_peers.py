"""Peers whose connection to this process broke, and who have to dial again: have they ended instead?

Who dialled finds out by dialling again that nobody is there any more. The other side only sees a socket that broke: as
its agent hears of every process that has ended, it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel.protocol import process_messages as op
from kernel.runtime.requests import Request
from kernel.transport.connection import Connection
from kernel.transport.tcp_connection import TcpConnection

if TYPE_CHECKING:
    from kernel.runtime.process import Process

_FIRST_SECONDS, _LATER_SECONDS = 0.02, 0.25
"""How soon after a cut the agent is asked, and how often then: its news may be on the way."""


class _Question(Request):
    """Calls `then(answer)`; nothing if there is no answer."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Any], None], number: int, connection: Connection) -> None:
        super().__init__(number, connection)
        self._then = then

    def complete(self) -> None:
        """The answer is there."""
        if not self.failed:
            self._then(self.value)


class CutPeers:
    """Looks after the incoming connections of a process. Under its lock, or in its loop."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def watch(self, connection: Connection) -> None:
        """Look after a connection that another process has opened."""
        if isinstance(connection, TcpConnection) and connection.incoming:
            connection.on_cut = lambda: self._ask_later(connection, _FIRST_SECONDS)

    def _ask_later(self, connection: TcpConnection, seconds: float) -> None:
        self._process.reactor.call_later(seconds, lambda: self._ask(connection))

    def _ask(self, connection: TcpConnection) -> None:
        process = self._process
        with process.lock:
            agent = process.agent
            if not _is_cut(connection) or process.closing or agent is None or agent.closed:
                return
            request = process.expect_reply(agent, partial(_Question, partial(self._answered, connection)))
            process.send(agent, (op.CALL, request.number, "has_ended", (connection.info.id,)))
        process.flush()
        self._ask_later(connection, _LATER_SECONDS)

    def _answered(self, connection: TcpConnection, ended: bool) -> None:
        if ended and _is_cut(connection):
            connection.give_up("the peer has ended")


def _is_cut(connection: TcpConnection) -> bool:
    return connection.fd < 0 and not connection.closed
