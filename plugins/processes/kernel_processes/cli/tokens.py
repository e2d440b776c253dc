"""Find a cluster's token: in a file, the environment, or a session on this machine, but never in an argument."""

from __future__ import annotations

from pathlib import Path

import click

from kernel.commands import Refusal
from kernel_processes.node.cluster_tokens import given_token, token_in
from kernel_processes.node.sessions import running_sessions, session_of_cluster
from kernel_processes.transport.authentication import TOKEN_VARIABLE, make_token, write_token

FILE_NAME = "token"
"""Name of the token's file in a directory for metadata."""

token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A file with the cluster's token (default: KERNEL_TOKEN, else that of a session on this machine).",
)


def token_to_join(place: str, file: Path | None) -> bytes:
    """Return the token of the cluster whose head is at `place` ("HOST:PORT").

    Raises Refusal when no token is known, OptionError for an invalid one.
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
    """Return the token for a head: the given one, or the one in its `metadata` directory, or a new one.

    A missing `file` is created with a new token, and so is the file in `metadata`: a head that takes over needs the
    same token. Raises Refusal for a file that can't be written, OptionError for an invalid token.
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
