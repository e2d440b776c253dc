"""Where commands get a cluster's token from: a file, the environment, a session on this machine. Never an argument."""

from __future__ import annotations

from pathlib import Path

import click

from kernel.commands import Refusal
from kernel_processes.node.cluster_tokens import given_token, token_in
from kernel_processes.node.sessions import running_sessions, session_of_cluster
from kernel_processes.transport.authentication import TOKEN_VARIABLE, make_token, write_token

FILE_NAME = "token"
"""What the token's file in a directory for metadata is called."""

token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A file with the cluster's token (default: KERNEL_TOKEN, else that of a session on this machine).",
)


def token_to_join(place: str, file: Path | None) -> bytes:
    """Return the token of the cluster whose head is at `place` ("HOST:PORT"). Raises Refusal where there is none.

    Raises OptionError for one that can't be used.
    """
    given = given_token(file)
    if given is not None:
        return given
    session = session_of_cluster(place, running_sessions())
    if session is None:
        raise Refusal(
            f"the token of the cluster at {place} is not known here: `kernel token` on its head's machine shows it; "
            f"give it in a file with --token-file FILE, or in the environment as {TOKEN_VARIABLE}"
        )
    return session.token()


def token_of_head(file: Path | None, metadata: Path | None) -> bytes:
    """Return the token that a head is to have: the one given, else that of its `metadata`, else a new one.

    A `file` that is not there is made, and so is that of the metadata: a head that carries on needs the same one.
    Raises Refusal for one that can't be written, OptionError for one that can't be used.
    """
    if file is None and (given := given_token(None)) is not None:
        return given
    place = file if file is not None else metadata / FILE_NAME if metadata is not None else None
    if place is None:
        return make_token()
    if not place.exists():
        try:
            write_token(place, make_token())
        except OSError as error:
            raise Refusal(f"the token file {place} can't be written: {error.strerror}") from error
    return token_in(place)
