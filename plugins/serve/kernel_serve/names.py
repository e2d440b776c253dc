"""Saying which name somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.nearest import nearest as most_like

_MOST = 10


def missing(what: str, name: str, known: Iterable[str]) -> str:
    """Return that there is no `what` of that name, and which may be meant."""
    return f"there is no {what} {name!r}{nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return what an error about an unknown name ends with: the one that is most like it, or those that there are."""
    names = sorted(known)
    close = most_like(name, names)
    if close:
        return f"; did you mean {close!r}?"
    return f"; there are {', '.join(names[:_MOST])}" if names else "; there is none"
