"""Lines that are overwritten by way of carriage returns, such as progress bars: what is visible in the end."""

from __future__ import annotations

RETURN = "\r"


def overwritten(line: str) -> str:
    """Return what a terminal shows of a line: text after a carriage return overwrites the text before."""
    if RETURN not in line:
        return line
    shown = ""
    for part in line.split(RETURN):
        shown = part + shown[len(part) :]
    return shown.rstrip(" ")
