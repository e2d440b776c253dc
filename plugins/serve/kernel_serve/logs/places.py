"""The directory of Serve's files in the session's logs."""

from __future__ import annotations

import os
import re

import kernel

_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def directory(wanted: str | None = None) -> str:
    """Return the directory for Serve's files, which is `wanted` if given.

    It is created. Raises OSError if it can't be.
    """
    if not wanted:
        session = kernel.init(ignore_reinit_error=True)["session_dir"] or "."
        wanted = os.path.join(str(session), "logs", "serve")
    os.makedirs(wanted, exist_ok=True)
    return wanted


def file_name(text: str) -> str:
    """Return `text` as the name of a file."""
    return _ODD.sub("-", text).strip("-.") or "unnamed"
