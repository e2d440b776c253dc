"""What went wrong in users' code, told without the frames that are not theirs."""

from __future__ import annotations

import os
import traceback

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def told(error: BaseException) -> str:
    """Return an error with its traceback, from the first frame of the user's own on."""
    described = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in described.stack if not _is_machinery(frame.filename)]
    described.stack = traceback.StackSummary.from_list(frames)
    return "".join(described.format()).rstrip()


def _is_machinery(file: str) -> bool:
    return file.startswith((_OURS, "<frozen ")) or f"importlib{os.sep}__init__.py" in file
