"""Cut the last lines of a dead process's standard error down to those that say why it died."""

from __future__ import annotations

import os
from collections.abc import Sequence

LINES = 8
"""The number of lines that are shown, also before a fatal error of the interpreter."""
_FRAMES = 12
_ERROR_BYTES = 1 << 16
_FATAL = "Fatal Python error"
_INSIDE = tuple(f"{os.sep}{name}{os.sep}" for name in ("kernel", "kernel_engine", "kernel_processes"))
"""Folders of code that is not the user's."""


def crash_output(lines: Sequence[str]) -> list[str]:
    """Return the lines to show of the end of a standard error.

    Usually the last ones. Where the interpreter reported a fatal error with the stack, innermost call first, the
    lines before it and the user's part of the stack: what comes after are our own frames and lists of modules.
    """
    written = [line for line in lines if line.strip()]
    fatal = next((i for i, line in enumerate(written) if line.startswith(_FATAL)), None)
    if fatal is None:
        return written[-LINES:]
    stack = written[fatal : fatal + 2 + _FRAMES]
    ours = next(
        (
            i
            for i, line in enumerate(stack)
            if any(folder in line for folder in _INSIDE) or line.startswith("Extension modules")
        ),
        None,
    )
    return written[max(0, fatal - LINES) : fatal] + stack[:ours]


def agent_crash_output(directory: str) -> str:
    """Return, indented below a colon, the last lines that a session's agent and templates wrote to stderr."""
    try:
        with open(os.path.join(directory, "logs", "agent.err"), "rb") as file:
            file.seek(-min(_ERROR_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = file.read().decode(errors="replace").strip().splitlines()[-LINES:]
    except OSError:
        return ""
    return ":\n  " + "\n  ".join(lines) if lines else ""
