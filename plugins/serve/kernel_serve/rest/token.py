"""The secret of the REST API: the session's token."""

from __future__ import annotations

import os

import kernel
from kernel_serve.errors import ServeError

TOKEN_VARIABLE = "KERNEL_TOKEN"


def session_token() -> str:
    """Return the session's token, as `kernel token` shows it.

    Raises ServeError where the session has no file with it.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return given.strip()
    path = os.path.join(kernel.init(ignore_reinit_error=True)["session_dir"], "token")
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError as error:
        raise ServeError(
            f"the session's token can't be read from {path}: {error.strerror}; give it in the environment as "
            f"{TOKEN_VARIABLE}"
        ) from error
