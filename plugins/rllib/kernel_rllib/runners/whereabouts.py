"""Where a thread that steps environments is: for those who wait for it."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import FrameType

from kernel_rllib.envs.moves import MOVES

_OURS = "kernel_rllib."
_OF_USERS = ("kernel_rllib.envs.", "kernel_rllib.callbacks.")
"""Modules that call code of users, or wait for processes that run it."""


@dataclass(frozen=True)
class Whereabouts:
    """Where a thread is.

    Attributes:
        moves: How many steps and resets the environments of its process have come through.
        place: The method that it is in, and the line, in words; "" where it does nothing.
        is_in_environments: Whether that is code of environments or callbacks, or it waits for them.
    """

    moves: int
    place: str = ""
    is_in_environments: bool = False


def whereabouts_of(thread: int) -> Whereabouts:
    """Return where a thread of this process is now, by its number."""
    frame = sys._current_frames().get(thread)
    inner: list[FrameType] = []  # what our code has called, the innermost first
    while frame is not None and not _module(frame).startswith(_OURS):
        inner.append(frame)
        frame = frame.f_back
    if frame is None:
        return Whereabouts(MOVES.count)
    called = [each for each in reversed(inner) if not _module(each).startswith("gymnasium.")]
    shown = (called or [frame])[0]
    return Whereabouts(MOVES.count, _words(shown), _module(frame).startswith(_OF_USERS))


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _words(frame: FrameType) -> str:
    code = frame.f_code
    name = str(getattr(code, "co_qualname", code.co_name)).rpartition("<locals>.")[2]  # Python 3.10 has no co_qualname
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f"{name}(), at {os.path.basename(code.co_filename)}, line {frame.f_lineno}{f': {line}' if line else ''}"
