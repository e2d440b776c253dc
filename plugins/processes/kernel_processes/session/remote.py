"""Join a cluster from outside (`kernel://HOST:PORT`): the program starts its own agent, which runs no tasks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from kernel_processes.node.cluster_tokens import given_token
from kernel_processes.node.networks import usable_tls
from kernel_processes.node.sessions import running_sessions, session_of_cluster
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.session.agent_settings import agent_config
from kernel_processes.transport.addresses import HEAD, SCHEME, parse_host_and_port
from kernel_processes.transport.authentication import TOKEN_VARIABLE
from kernel_spec.dataclass import dataclass
from kernel_spec.engines import REMOTE, SessionOptions
from kernel_spec.errors import OptionError
from kernel_spec.tls_files import TlsFiles

TLS_VARIABLE = "KERNEL_TLS"


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Holds the settings for the agent of a remote driver. `place` is where the head listens ("HOST:PORT")."""

    given: SessionOptions
    place: str
    token: bytes
    tls: TlsFiles | None

    @classmethod
    def of(cls, given: SessionOptions) -> RemoteOptions:
        """Check the options of `kernel.init` and return the settings. Raises OptionError for an invalid option."""
        place = (given.address or "").removeprefix(REMOTE)
        parse_host_and_port(place)
        directory = given.tls or os.environ.get(TLS_VARIABLE)
        tls = usable_tls(directory, os.environ)  # Checked here, because the agent would report it later.
        return cls(given, place, _token_for(place, given.token_file), tls)

    def agent_config(self, directory: str, token: bytes, ephemeral: bool) -> AgentConfig:
        """Return the settings for the agent whose session is in `directory`."""
        return replace(
            agent_config(self.given, directory, token, ephemeral),
            head=f"{SCHEME}{self.place}/{HEAD}",
            relay=self.place,
            tls=self.tls,
        )


def _token_for(place: str, file: str | os.PathLike[str] | None) -> bytes:
    token = given_token(Path(file) if file is not None else None)
    if token is not None:
        return token
    session = session_of_cluster(place, running_sessions())
    if session is None:
        raise OptionError(
            f"the token of the cluster at {place} is not known here: `kernel token` on its head's machine shows it; "
            f"give it in a file with kernel.init(token_file=...), or in the environment as {TOKEN_VARIABLE}"
        )
    return session.token()
