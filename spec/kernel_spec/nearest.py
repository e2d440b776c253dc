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


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "", likeness: float = 0.5) -> str:
    """Return the end of a message about an unknown name: a suggestion of the most similar known one, or `otherwise`.

    It begins with "; " unless it is empty. `likeness` is the minimum similarity of a suggestion, from 0 to 1.
    """
    close = nearest(name, known, likeness)
    hint = f"did you mean {close!r}?" if close else otherwise
    return f"; {hint}" if hint else ""


def _letters(name: str) -> str:
    return name.lower().replace("-", "_")
