"""Find the token of a cluster that a program from outside is given: in a file, or in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from kernel_processes.transport.authentication import TOKEN_VARIABLE, parse_token
from kernel_spec.errors import OptionError


def given_token(file: Path | None) -> bytes | None:
    """Return the token in `file`, else that in KERNEL_TOKEN, else None. Raises OptionError for an invalid token."""
    if file is not None:
        return token_in(file)
    text = os.environ.get(TOKEN_VARIABLE)
    if not text:
        return None
    try:
        return parse_token(text)
    except ValueError as error:
        raise OptionError(f"what {TOKEN_VARIABLE} holds is no token: {error}; `kernel token` shows one") from error


def token_in(path: Path) -> bytes:
    """Return the token in a file. Raises OptionError when other users can read it, or when it has no valid token."""
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise OptionError(
            f"the token file {path} can't be read: {reason}; `kernel token --output FILE` makes one"
        ) from error
    if mode & 0o077:
        raise OptionError(f"the token file {path} can be read by others; run: chmod 600 {path}")
    try:
        return parse_token(text)
    except ValueError as error:
        raise OptionError(
            f"the token file {path} holds no token: {error}; `kernel token --output FILE` makes one"
        ) from error
