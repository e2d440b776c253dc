"""Lines that are written over again and again, such as progress bars: what of them is to be seen in the end."""

from __future__ import annotations

RETURN = "\r"


def overwritten(line: str) -> str:
    """Return what is to be seen of a line on a terminal: what follows a carriage return is written over what was."""
    if RETURN not in line:
        return line
    shown = ""
    for part in line.split(RETURN):
        shown = part + shown[len(part) :]
    return shown.rstrip(" ")
