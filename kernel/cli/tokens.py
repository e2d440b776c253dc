"""Where commands get a cluster's token from: a file, the environment, a session on this machine. Never an argument."""

from __future__ import annotations

import os
from pathlib import Path

import click

from kernel.cli.refusals import Refusal
from kernel.node.sessions import running_sessions, session_of_cluster
from kernel.transport.authentication import TOKEN_VARIABLE, make_token, parse_token, write_token

FILE_NAME = "token"
"""What the token's file in a directory for metadata is called."""

token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A file with the cluster's token (default: KERNEL_TOKEN, else that of a session on this machine).",
)


def token_to_join(place: str, file: Path | None) -> bytes:
    """Return the token of the cluster whose head is at `place` ("HOST:PORT"). Raises Refusal where there is none."""
    given = _given(file)
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
    Raises Refusal for a token that can't be used.
    """
    if file is None and (given := _given(None)) is not None:
        return given
    place = file if file is not None else metadata / FILE_NAME if metadata is not None else None
    if place is None:
        return make_token()
    if not place.exists():
        try:
            write_token(place, make_token())
        except OSError as error:
            raise Refusal(f"the token file {place} can't be written: {error.strerror}") from error
    return _read(place)


def _given(file: Path | None) -> bytes | None:
    if file is not None:
        return _read(file)
    text = os.environ.get(TOKEN_VARIABLE)
    if not text:
        return None
    try:
        return parse_token(text)
    except ValueError as error:
        raise Refusal(f"what {TOKEN_VARIABLE} holds is no token: {error}; `kernel token` shows one") from error


def _read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Refusal(
            f"the token file {path} can't be read: {reason}; `kernel token --output FILE` makes one"
        ) from error
    if mode & 0o077:
        raise Refusal(f"the token file {path} can be read by others; run: chmod 600 {path}")
    try:
        return parse_token(text)
    except ValueError as error:
        raise Refusal(
            f"the token file {path} holds no token: {error}; `kernel token --output FILE` makes one"
        ) from error
