"""Find a session, and ask its agent: a light client without objects, tasks or threads.

It introduces itself with the role "tool", so the agent counts it neither as a program nor as a worker. On a machine
without a node of the cluster it connects to the head's port instead.
"""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from kernel.api.init_options import REMOTE
from kernel.cli.display import WaitingMessage
from kernel.commands import Failure, Refusal, nearest
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.cli.tokens import token_to_join
from kernel_processes.node.connect_hints import connect_hint
from kernel_processes.node.sessions import (
    SessionDirectory,
    last_ended,
    newest_session,
    running_sessions,
    session_at,
    session_of_cluster,
    sessions_elsewhere,
)
from kernel_processes.protocol.head_messages import JoinRefused
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.addresses import HEAD, is_place
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError, OptionError
from kernel_spec.tls_files import TlsFiles

ANSWER_SECONDS = 10.0
"""Seconds to wait for an agent's answer. An agent that has to ask all processes needs two seconds at most."""

NO_SESSION = "no session of yours is running; start one with: kernel start --head"

tls_option = click.option(
    "--tls",
    metavar="DIR",
    envvar="KERNEL_TLS",
    help="Use TLS between machines, with the files of `kernel certificates create DIR`.",
)

_TOKEN, _TLS = "kernel.token_file", "kernel.tls"


def _remember(name: str) -> Any:
    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return remember


def address_option(command: Any) -> Any:
    """Add --address to a command, and the options for a head on another machine (--token-file and --tls)."""
    options = (
        click.option(
            "--address",
            metavar="SESSION",
            envvar="KERNEL_ADDRESS",
            help="The session: its name or part of it, its directory, or its head's HOST:PORT "
            "(default: your newest, or that of its head).",
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            expose_value=False,
            callback=_remember(_TOKEN),
            help="File with the token of a head on another machine (default: KERNEL_TOKEN).",
        ),
        click.option(
            "--tls",
            metavar="DIR",
            envvar="KERNEL_TLS",
            expose_value=False,
            callback=_remember(_TLS),
            help="Use TLS for a head on another machine, with the files of `kernel certificates create DIR`.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")


@dataclass(frozen=True, slots=True)
class DistantHead:
    """The head of a cluster that has no node on this machine. `name` is where it listens, HOST:PORT."""

    name: str
    secret: bytes
    tls: TlsFiles | None

    def token(self) -> bytes:
        """Return the cluster's secret."""
        return self.secret


def find_head(address: str | None = None) -> SessionDirectory | DistantHead:
    """Return the session that `address` names, or the head at HOST:PORT if its cluster has no node on this machine.

    Raises Failure when no session runs, and Refusal when `address` names none or no token is known for the head.
    """
    if address is None or not is_place(address := address.removeprefix(REMOTE)):
        return find_session(address)
    session = session_of_cluster(address, running_sessions())
    if session is not None:
        return session
    options = click.get_current_context().meta
    tls = options.get(_TLS)
    files = TlsFiles.of_directory(tls) if tls else None
    return DistantHead(address, token_to_join(address, options.get(_TOKEN)), files)


def find_session(address: str | None = None, advice: str = "") -> SessionDirectory:
    """Return the session that `address` names, or the newest without an address.

    `advice` is added to the message when `address` is HOST:PORT of a head whose cluster has no node on this machine.
    Raises Failure when no session runs, and Refusal when `address` names none.
    """
    sessions = running_sessions()
    if address in (None, "", "auto"):
        if not sessions:
            raise Failure(NO_SESSION + _why_there_is_none())
        return newest_session(sessions)
    assert address is not None
    if is_place(address):
        session = session_of_cluster(address, sessions)
        if session is None:
            raise Refusal(f"this machine has no node of the cluster at {address}{f'; {advice}' if advice else ''}")
        return session
    return match_session(address, sessions)


def _why_there_is_none() -> str:
    session = last_ended()
    if session is not None:
        return f" (the last, {session.name}, has ended: {session.ended})"
    return "".join(f" ({name} is {where})" for name, where in sessions_elsewhere().items())


def match_session(address: str, sessions: list[SessionDirectory]) -> SessionDirectory:
    """Return the session with the directory `address`, or the one of `sessions` whose name contains `address`.

    Raises Refusal when no session matches, or several do.
    """
    wanted = address.rstrip("/")
    if os.path.isdir(wanted) and (there := session_at(wanted)):
        return there
    for session in sessions:
        if wanted == session.name:
            return session
    found = [session for session in sessions if wanted in session.name]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refusal(f"{address!r} fits {len(found)} sessions: {', '.join(session.name for session in found)}")
    if where := sessions_elsewhere().get(wanted):
        raise Refusal(f"session {wanted} can't be asked from here: it is {where}")
    if not sessions:
        raise Refusal(f"there is no session {address!r}: {NO_SESSION}")
    names = [session.name for session in sessions]
    hint = nearest(address, names) or f"; there are {', '.join(names)}"
    raise Refusal(f"there is no session {address!r}{hint}")


class SessionClient:
    """A connection to a session's agent or to a head, for questions with `ask`. A context manager.

    `seconds` is the time to wait for each answer. Raises Failure when the connection can't be made, OptionError for
    certificates that can't be used.
    """

    def __init__(self, session: SessionDirectory | DistantHead, seconds: float = ANSWER_SECONDS) -> None:
        self.session = session
        self._seconds = seconds
        self._answers: dict[int, Message] = {}
        self._number = 0
        self._lost = ""
        self._refusal = ""
        self._reactor = Reactor()
        distant = isinstance(session, DistantHead)
        self._what = f"the head at {session.name}" if distant else f"session {session.name}"
        place = f"tcp://{session.name}/{HEAD}" if distant else f"{session.directory}/agent.sock"
        try:
            connector = _connector_of(session, self._reactor)
            self._connection = connector.connect(place, self._on_messages, self._on_close)
        except OptionError:
            self._reactor.close()
            raise
        except (OSError, KernelError) as error:
            self._reactor.close()
            raise Failure(f"{self._what} can't be asked: {error}") from error
        self._connection.send(
            packed(
                op.Introduction(
                    process=os.urandom(8), role="tool", pid=os.getpid(), address="", python=PYTHON, details={}
                )
            )
        )

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

    @property
    def is_lost(self) -> bool:
        """Whether the other side has ended the connection."""
        return bool(self._lost)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call `method` of the agent and return its answer.

        Raises the error that the agent answers with, and Failure when it does not answer in time or ends the
        connection.
        """
        self._number += 1
        number = self._number
        self._connection.send((op.CALL, number, method, arguments))
        self._connection.flush()
        with WaitingMessage(f"asking {self.session.name}") as waiting:
            self._await_answer(number, waiting)
        answer = self._answers.pop(number)
        if answer[0] == op.REPLY_ERROR:
            raise pickle.loads(answer[2])
        return pickle.loads(answer[2]) if answer[0] == op.REPLY_PICKLED else answer[2]

    def _await_answer(self, number: int, waiting: WaitingMessage) -> None:
        deadline = time.monotonic() + self._seconds
        while number not in self._answers:
            left = deadline - time.monotonic()
            if self._lost and isinstance(self.session, DistantHead):
                raise Failure(f"{self._what} can't be asked: {self._lost}{connect_hint(self._lost)}")
            if self._lost:
                raise Failure(f"{self._what} ended the connection ({self._lost})")
            if left <= 0 and isinstance(self.session, DistantHead):
                raise Failure(f"{self._what} does not answer within {self._seconds:g} s")
            if left <= 0:
                raise Failure(
                    f"{self._what} does not answer within {self._seconds:g} s (agent pid "
                    f"{self.session.pid}); end it with: kernel stop --force {self.session.name}"
                )
            waiting.show()
            self._reactor.poll(min(left, 0.25))

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if message[0] in (op.REPLY, op.REPLY_ERROR, op.REPLY_PICKLED):
                self._answers[message[1]] = message
            elif message[0] == number_of(JoinRefused):
                self._refusal = unpacked(JoinRefused, message).reason

    def _on_close(self, connection: Connection, reason: str) -> None:
        self._lost = self._refusal or reason.removeprefix(f"no connection to tcp://{self.session.name}/{HEAD}: ")

    def await_end(self, seconds: float) -> bool:
        """Wait up to `seconds` for the other side to end the connection; return whether it did."""
        deadline = time.monotonic() + seconds
        while not self._lost and (left := deadline - time.monotonic()) > 0:
            self._reactor.poll(min(left, 0.25))
        return bool(self._lost)


def _connector_of(session: SessionDirectory | DistantHead, reactor: Reactor) -> Connector:
    if isinstance(session, SessionDirectory):
        return Connector(session.token(), reactor)
    from kernel_processes.node.networks import find_network, network_name  # Not needed with one machine.

    return Connector(session.token(), reactor, find_network(network_name(os.environ)), session.tls)


def ask_session(address: str | None, method: str, *arguments: Any) -> tuple[SessionDirectory | DistantHead, Any]:
    """Find a session and call `method` of its agent; return the session and the answer."""
    session = find_head(address)
    with SessionClient(session) as client:
        return session, client.ask(method, *arguments)
