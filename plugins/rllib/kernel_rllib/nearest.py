"""Saying which name somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, or None. `likeness` is how much alike they must be, 0 to 1."""
    import difflib  # only where something is wrong

    by_letters = {each.lower().replace("-", "_"): each for each in known}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), by_letters, 1, likeness)
    return by_letters[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what an error about an unknown name ends with: "; did you mean 'lr'?", or `otherwise`."""
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else otherwise
