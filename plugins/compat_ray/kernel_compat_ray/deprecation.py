"""Warnings that point at the program's own line, however deep they are given."""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.dirname(__file__) + os.sep


def warn_renamed(old: str, new: str) -> None:
    """Say that `old` is an older spelling of `new`."""
    _warn(f"{old} is an old name; use {new}", DeprecationWarning)


def warn_ignored(what: str, why: str) -> None:
    """Say that an argument has no effect here, and why that does no harm."""
    _warn(f"{what} has no effect on kernel: {why}", UserWarning)


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, stacklevel=_level_of_the_program())


def _level_of_the_program() -> int:
    """Return how many frames above the caller of `_warn` the first one is that belongs to nobody of us."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(file: str) -> bool:
    return file.startswith((_HERE, "<frozen importlib"))
