"""Finding a session, and asking its agent: a light client that owns nothing, runs nothing and starts no thread.

It introduces itself with the role "tool", so the agent counts it neither as a program nor as a worker. From a machine
without a node of the cluster the head itself is asked, through its port.
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
"""How long an agent may take to answer; asking every process of a session takes it two at most."""

NO_SESSION = "no session of yours is running; start one with: kernel start --head"

tls_option = click.option(
    "--tls",
    metavar="DIR",
    envvar="KERNEL_TLS",
    help="Speak TLS between machines, with what `kernel certificates create DIR` wrote.",
)

_TOKEN, _TLS = "kernel.token_file", "kernel.tls"


def _remember(name: str) -> Any:
    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return remember


def address_option(command: Any) -> Any:
    """Add --address to a command, and what is needed to ask a head elsewhere."""
    options = (
        click.option(
            "--address",
            metavar="SESSION",
            envvar="KERNEL_ADDRESS",
            help="The session: its name, a part of it, its directory, or HOST:PORT of its head (default: your newest).",
        ),
        click.option(
            "--token-file",
            metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            expose_value=False,
            callback=_remember(_TOKEN),
            help="The token of a head elsewhere (default: KERNEL_TOKEN).",
        ),
        click.option(
            "--tls",
            metavar="DIR",
            envvar="KERNEL_TLS",
            expose_value=False,
            callback=_remember(_TLS),
            help="Ask a head elsewhere in TLS, with what `kernel certificates create DIR` wrote.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")


@dataclass(frozen=True, slots=True)
class DistantHead:
    """A head of which no node is on this machine. `name` is its place, HOST:PORT."""

    name: str
    secret: bytes
    tls: TlsFiles | None

    def token(self) -> bytes:
        """Return the cluster's secret."""
        return self.secret


def find_head(address: str | None = None) -> SessionDirectory | DistantHead:
    """Return whom to ask: the session that `address` names, or the head at HOST:PORT if it is on no node here."""
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
    """Return the session that `address` names, the newest without it. Raises Failure or Refusal when there is none.

    `advice` says what to do where `address` is that of a head (HOST:PORT) and its cluster has no node on this machine.
    """
    sessions = running_sessions()
    if address in (None, "", "auto"):
        if not sessions:
            raise Failure(NO_SESSION + _why_there_is_none())
        return sessions[-1]
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
    """Return the session whose directory `address` is, or the one of `sessions` it names or is a part of.

    Raises Refusal when there is none.
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
    """A connection to a session's agent. A context manager; `ask` is all it does."""

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
        """Return what the agent answers.

        Raises the agent's own error, and Failure when it does not answer in time or ends the connection.
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
        """Return whether the other side ends the connection within `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._lost and (left := deadline - time.monotonic()) > 0:
            self._reactor.poll(min(left, 0.25))
        return bool(self._lost)


def _connector_of(session: SessionDirectory | DistantHead, reactor: Reactor) -> Connector:
    if isinstance(session, SessionDirectory):
        return Connector(session.token(), reactor)
    from kernel_processes.node.networks import find_network, network_name  # which one machine does without

    return Connector(session.token(), reactor, find_network(network_name(os.environ)), session.tls)


def ask_session(address: str | None, method: str, *arguments: Any) -> tuple[SessionDirectory | DistantHead, Any]:
    """Find a session, ask its agent one thing, and return both."""
    session = find_head(address)
    with SessionClient(session) as client:
        return session, client.ask(method, *arguments)
