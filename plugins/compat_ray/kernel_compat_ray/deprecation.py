"""Give warnings that point at the program's own line, however deep the call is."""

from __future__ import annotations

import os
import sys
import warnings

_NOT_THE_PROGRAM = (os.path.dirname(__file__) + os.sep, "<frozen importlib")


def warn_renamed(old: str, new: str) -> None:
    """Say that `old` is an older spelling of `new`."""
    _warn(f"{old} is an old name; use {new}", DeprecationWarning)


def warn_ignored(what: str, why: str) -> None:
    """Say that an argument has no effect here, and why that does no harm."""
    _warn(f"{what} has no effect on kernel: {why}", UserWarning)


def _warn(text: str, category: type[Warning]) -> None:
    """Attribute the warning to the nearest caller outside of the kernel, its plugins and Python's import system."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_PROGRAM):
        frame = frame.f_back
    known = frame.f_globals
    registry = known.setdefault("__warningregistry__", {})
    module = known.get("__name__", "<unknown>")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, module, registry)
