"""Saying which name somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 10


def missing(what: str, name: str, known: Iterable[str]) -> str:
    """Return that there is no `what` of that name, and which may be meant."""
    return f"there is no {what} {name!r}{nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what an error about an unknown name ends with: the one that is most like it, or those that there are."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, 1, 0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names[:_MOST])}" if names else "; there is none"
