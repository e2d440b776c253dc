"""Warning at the line of the user's program that is the cause."""

from __future__ import annotations

import os.path
import sys
import warnings

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and blame the nearest caller that is outside of this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)
