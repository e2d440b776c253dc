"""Warning at the line of the user's program that is the cause."""

from __future__ import annotations

import os.path
import sys
import warnings

import kernel_rllib
import kernel_runs

_OURS = tuple(os.path.dirname(os.path.abspath(str(each.__file__))) for each in (kernel_rllib, kernel_runs))


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and blame the nearest caller that is outside of this package, and of the one that its runs are of."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
