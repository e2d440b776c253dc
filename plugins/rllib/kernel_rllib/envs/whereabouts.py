"""Report where a thread that steps environments is, to those that wait for it."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass, replace
from types import FrameType
from typing import Protocol, runtime_checkable

from kernel_rllib.envs.moves import MOVES

_OURS = "kernel_rllib."
_OF_USERS = ("kernel_rllib.envs.", "kernel_rllib.callbacks.")
"""Modules that call code of users, or wait for processes that run it."""
_RUNNER = "kernel_rllib.runners.env_runner"
_DEPTH = 4
"""In so many methods, one in another, may one be that waits for a process: it reads from a pipe."""


@dataclass(frozen=True)
class Whereabouts:
    """The position of a thread in the code.

    Attributes:
        moves: The number of steps and resets of environments so far, in its process and one that it waits for.
        place: The method that it is in, and the line, in words; "" where it does nothing.
        is_in_environments: Whether that is code of environments or callbacks, here or in a process that it waits for.
        samples: Whether it steps environments for a sample, and is not called for anything else.
    """

    moves: int
    place: str = ""
    is_in_environments: bool = False
    samples: bool = False


@runtime_checkable
class WaitsForProcess(Protocol):
    """An object whose method a thread runs while it waits for another process."""

    def inside(self) -> Whereabouts:
        """Return where that process is, as far as it says so soon."""
        ...


def whereabouts_of(thread: int) -> Whereabouts:
    """Return where a thread of this process is now, by its number."""
    frame = sys._current_frames().get(thread)
    samples = _samples(frame)
    inner: list[FrameType] = []  # The frames that our code has called, the innermost first.
    while frame is not None and not _module(frame).startswith(_OURS):
        inner.append(frame)
        frame = frame.f_back
    if frame is None:
        return Whereabouts(MOVES.count)
    waits = _waits_for(frame)
    if waits is not None:
        found = waits.inside()
        return replace(found, moves=MOVES.count + found.moves, samples=samples)
    called = [each for each in reversed(inner) if not _module(each).startswith("gymnasium.")]
    shown = (called or [frame])[0]
    return Whereabouts(MOVES.count, _words(shown), _module(frame).startswith(_OF_USERS), samples)


def _samples(frame: FrameType | None) -> bool:
    while frame is not None:
        if _module(frame) == _RUNNER and frame.f_code.co_name == "sample":
            return True
        frame = frame.f_back
    return False


def _waits_for(frame: FrameType | None) -> WaitsForProcess | None:
    """Return what waits for another process, among the methods of ours that are innermost."""
    for _ in range(_DEPTH):
        if frame is None or not _module(frame).startswith(_OURS):
            return None
        found = frame.f_locals.get("self")
        if isinstance(found, WaitsForProcess) and frame.f_code.co_name != "__init__":  # where it is not made yet
            return found
        frame = frame.f_back
    return None


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _words(frame: FrameType) -> str:
    code = frame.f_code
    name = str(getattr(code, "co_qualname", code.co_name)).rpartition("<locals>.")[2]  # Python 3.10 has no co_qualname
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f"{name}(), at {os.path.basename(code.co_filename)}, line {frame.f_lineno}{f': {line}' if line else ''}"
