"""Saying which name somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: object, known: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the known name that is most like `name`, or None where none is like it.

    `likeness` is how much alike they must be, from 0 to 1. Capitals count as small letters, and "-" as "_".
    """
    import difflib  # only where something is wrong

    by_letters = {_letters(each): each for each in known}
    close = difflib.get_close_matches(_letters(str(name)), by_letters, 1, likeness)
    return by_letters[close[0]] if close else None


def _letters(name: str) -> str:
    return name.lower().replace("-", "_")
