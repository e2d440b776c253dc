"""What displays on terminals share: whether there is one, and little curves of text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

_BLOCKS = "▁▂▃▄▅▆▇█"


def is_terminal(stream: TextIO) -> bool:
    """Return whether a display can be drawn on a stream."""
    dumb = os.environ.get("TERM", "") in ("dumb", "unknown") or bool(os.environ.get("NO_COLOR"))
    return not dumb and hasattr(stream, "isatty") and stream.isatty()


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as little columns, the least the lowest, the greatest the highest."""
    finite = [value for value in values if abs(value) != float("inf")]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round((value - low) / (high - low) * steps) if high > low else 0] for value in finite)
