"""Helpers of displays on terminals: detection, and sparklines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

_BLOCKS = "▁▂▃▄▅▆▇█"


def is_terminal(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that supports a live display."""
    dumb = os.environ.get("TERM", "") in ("dumb", "unknown") or bool(os.environ.get("NO_COLOR"))
    return not dumb and hasattr(stream, "isatty") and stream.isatty()


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as a line of block characters, "" for fewer than two. The lowest block is the smallest number."""
    finite = [value for value in values if abs(value) != float("inf")]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round((value - low) / (high - low) * steps) if high > low else 0] for value in finite)
