"""The engine of many processes: it starts or joins a session by connecting to a node agent."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from kernel_spec.engines import REMOTE
from kernel_spec.errors import SessionEndedError

if TYPE_CHECKING:
    import subprocess

    from kernel_processes.node.sessions import SessionDirectory
    from kernel_processes.runtime.process_runtime import ProcessRuntime
    from kernel_spec.engines import SessionOptions


class ProcessesSession:
    """Represents a session that this program has joined.

    `agent` is the node agent that this program started for it, None for one that ran before; `directory` is the
    session's directory, which is removed when that agent has ended.
    """

    def __init__(
        self, runtime: ProcessRuntime, agent: subprocess.Popen[bytes] | None = None, directory: str | None = None
    ) -> None:
        self.runtime = runtime
        self._agent = agent
        self._directory = directory

    def end(self) -> None:
        """End the agent that this program started, and wait for it; do nothing where it started none.

        An agent that has not ended after 10 seconds is killed.
        """
        if self._agent is None:
            return
        import subprocess

        from kernel_processes.node.sessions import remove
        from kernel_processes.system.children import let_go

        let_go(self._agent)
        try:
            self._agent.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()
        if self._directory is not None:
            remove(self._directory)

    def forget(self) -> None:
        """Close the pipe to the agent in a forked child: the agent ends only when no process holds the pipe open."""
        if self._agent is not None and self._agent.stdin is not None:
            self._agent.stdin.close()


def open_session(given: SessionOptions) -> ProcessesSession:
    """Start a session, or join the one that `given.address` names.

    Raises SessionEndedError when no such session runs or the agent can't be started, OptionError for invalid options.
    """
    if given.address is None:
        return _start(given)
    if given.address.startswith(REMOTE):
        return _start_remote(given)
    from kernel_processes.session.joining import join

    return ProcessesSession(join(given, find_session(given.address)))


def _start(given: SessionOptions) -> ProcessesSession:
    from kernel_processes.daemons.launch import await_agent, launched
    from kernel_processes.session.agent_settings import agent_config

    with launched(partial(agent_config, given), False, given.temp_dir) as (session, agent):
        # Imported here, so that it overlaps with the start of the agent.
        from kernel_processes.session.joining import join

        await_agent(agent, session.directory)
        return ProcessesSession(join(given, session, starter=True), agent, session.directory)


def _start_remote(given: SessionOptions) -> ProcessesSession:
    from kernel_processes.daemons.launch import await_agent, launched
    from kernel_processes.session.remote import RemoteOptions

    options = RemoteOptions.of(given)
    with launched(options.agent_config, False, given.temp_dir, options.token) as (session, agent):
        from kernel_processes.session.joining import join

        await_agent(agent, session.directory)
        return ProcessesSession(join(given, session), agent, session.directory)


def find_session(address: str) -> SessionDirectory:
    """Return the running session that `address` names: "auto", a name, a directory, or HOST:PORT of a cluster's head.

    Raises SessionEndedError when there is no such session; its message says what to do.
    """
    from kernel_processes.node.sessions import (
        newest_session,
        running_sessions,
        session_at,
        session_of_cluster,
        sessions_elsewhere,
    )
    from kernel_processes.transport.addresses import is_place

    if os.path.isabs(address) and (session := session_at(address)):
        return session
    sessions = running_sessions()
    if address == "auto":
        if not sessions:
            raise SessionEndedError(
                'init(address="auto") found no running session of this user; start one with `kernel start --head`'
            )
        return newest_session(sessions)
    for session in sessions:
        if address == session.name:
            return session
    if is_place(address):
        if (found := session_of_cluster(address, sessions)) is not None:
            return found
        raise SessionEndedError(
            f"no node of the cluster at {address} runs on this machine, for this user; start one with "
            f'`kernel start --address {address}`, or join from outside with init(address="{REMOTE}{address}")'
        )
    if where := sessions_elsewhere().get(address):
        raise SessionEndedError(f"session {address} can't be joined from here: it is {where}")
    known = ", ".join(session.name for session in sessions) or "none"
    raise SessionEndedError(f"no session answers at {address!r}; running sessions of this user: {known}")
