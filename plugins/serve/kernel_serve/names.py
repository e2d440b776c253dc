"""Suggest the right name in errors about unknown names."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.nearest import nearest as most_like

_MOST = 10


def missing(what: str, name: str, known: Iterable[str]) -> str:
    """Return an error's message: there is no `what` of that name, and which name may be meant."""
    return f"there is no {what} {name!r}{nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the most similar known name, or else all of them."""
    names = sorted(known)
    close = most_like(name, names)
    if close:
        return f"; did you mean {close!r}?"
    return f"; there are {', '.join(names[:_MOST])}" if names else "; there is none"
