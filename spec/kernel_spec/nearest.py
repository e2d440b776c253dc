"""Find the known name that is most similar to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: object, known: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the known name that is most similar to `name`, or None if there is no similar one.

    `likeness` is the minimum similarity, from 0 to 1. Case is ignored, and "-" counts as "_".
    """
    import difflib  # imported only for messages about errors

    by_letters = {_letters(each): each for each in known}
    close = difflib.get_close_matches(_letters(str(name)), by_letters, 1, likeness)
    return by_letters[close[0]] if close else None


def _letters(name: str) -> str:
    return name.lower().replace("-", "_")
