"""Make foreign text safe for a terminal: keep colours, and remove what would move the cursor or do more."""

from __future__ import annotations

import re

_RESET = "\x1b[0m"
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # cursor, screen, modes, colours
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # titles, the clipboard, links, and the like
    r"|\x1b[ -/]*[0-~]?"  # character sets, a reset
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]",  # a bell, backspaces, ...
    re.DOTALL,
)


def harmless(text: str) -> str:
    """Return one line without control characters and escape sequences, but for tabs and colours, which end with it."""
    if text.isprintable():
        return text
    kept = _SEQUENCES.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)
    return kept + _RESET if "\x1b" in kept else kept


def without_colours(text: str) -> str:
    """Return what `harmless` gave, as long as it looks."""
    return _COLOUR.sub("", text)
