"""Show lines that carriage returns overwrite, such as progress bars, as a terminal does."""

from __future__ import annotations

RETURN = "\r"


def overwritten(line: str) -> str:
    """Return the text of a line on a terminal, where text after a carriage return overwrites the text before."""
    if RETURN not in line:
        return line
    shown = ""
    for part in line.split(RETURN):
        shown = part + shown[len(part) :]
    return shown.rstrip(" ")
