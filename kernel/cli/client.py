"""Finding a session, and asking its agent: a light client that owns nothing, runs nothing and starts no thread.

It introduces itself with the role "tool", so the agent counts it neither as a program nor as a worker.
"""

from __future__ import annotations

import os
import pickle
import time
from types import TracebackType
from typing import Any

import click

from kernel.cli.display import Waiting
from kernel.cli.refusals import Failure, Refusal, nearest
from kernel.node.sessions import Session, running_sessions
from kernel.runtime import operations as op
from kernel.runtime.process import PYTHON
from kernel.transport.connection import Connection, Message, connect
from kernel.transport.reactor import Reactor
from kernel_spec.errors import KernelError

ANSWER_SECONDS = 10.0
"""How long an agent may take to answer; asking every process of a session takes it two at most."""

NO_SESSION = "no session of yours is running; start one with: kernel start --head"

address_option = click.option(
    "--address",
    metavar="SESSION",
    envvar="KERNEL_ADDRESS",
    help="The session: its name, a part of it, or its directory (default: the newest of yours).",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")


def find_session(address: str | None = None) -> Session:
    """Return the session that `address` names, the newest without it. Raises Failure or Refusal when there is none."""
    sessions = running_sessions()
    if address in (None, "", "auto"):
        if not sessions:
            raise Failure(NO_SESSION)
        return sessions[-1]
    assert address is not None
    return match_session(address, sessions)


def match_session(address: str, sessions: list[Session]) -> Session:
    """Return the one of `sessions` that `address` names by name, directory or a part. Raises Refusal."""
    wanted = address.rstrip("/")
    for session in sessions:
        if wanted == session.name or os.path.realpath(wanted) == os.path.realpath(session.directory):
            return session
    found = [session for session in sessions if wanted in session.name]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refusal(f"{address!r} fits {len(found)} sessions: {', '.join(session.name for session in found)}")
    if not sessions:
        raise Refusal(f"there is no session {address!r}: {NO_SESSION}")
    names = [session.name for session in sessions]
    hint = nearest(address, names) or f"; there are {', '.join(names)}"
    raise Refusal(f"there is no session {address!r}{hint}")


class SessionClient:
    """A connection to a session's agent. A context manager; `ask` is all it does."""

    def __init__(self, session: Session, seconds: float = ANSWER_SECONDS) -> None:
        self.session = session
        self._seconds = seconds
        self._answers: dict[int, Message] = {}
        self._number = 0
        self._lost = ""
        self._reactor = Reactor()
        try:
            self._connection = connect(
                f"{session.directory}/agent.sock", session.token(), self._reactor, self._on_messages, self._on_close
            )
        except (OSError, KernelError) as error:
            self._reactor.close()
            raise Failure(f"session {session.name} can't be asked: {error}") from error
        self._connection.send((op.HELLO, os.urandom(8), "tool", os.getpid(), "", PYTHON, {}))

    def __enter__(self) -> SessionClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._lost = self._lost or "closed"
        self._connection.close()
        self._reactor.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what the agent answers.

        Raises the agent's own error, and Failure when it does not answer in time or ends the connection.
        """
        self._number += 1
        number = self._number
        self._connection.send((op.CALL, number, method, arguments))
        self._connection.flush()
        with Waiting(f"asking {self.session.name}") as waiting:
            self._await_answer(number, waiting)
        answer = self._answers.pop(number)
        if answer[0] == op.REPLY_ERROR:
            raise pickle.loads(answer[2])
        return pickle.loads(answer[2]) if isinstance(answer[2], bytes) else answer[2]

    def _await_answer(self, number: int, waiting: Waiting) -> None:
        deadline = time.monotonic() + self._seconds
        while number not in self._answers:
            left = deadline - time.monotonic()
            if self._lost:
                raise Failure(f"session {self.session.name} ended the connection ({self._lost})")
            if left <= 0:
                raise Failure(
                    f"session {self.session.name} does not answer within {self._seconds:g} s (agent pid "
                    f"{self.session.pid}); end it with: kernel stop --force {self.session.name}"
                )
            waiting.show()
            self._reactor.poll(min(left, 0.25))

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if message[0] in (op.REPLY, op.REPLY_ERROR):
                self._answers[message[1]] = message

    def _on_close(self, connection: Connection, reason: str) -> None:
        self._lost = reason


def ask_session(address: str | None, method: str, *arguments: Any) -> tuple[Session, Any]:
    """Find a session, ask its agent one thing, and return both."""
    session = find_session(address)
    with SessionClient(session) as client:
        return session, client.ask(method, *arguments)
