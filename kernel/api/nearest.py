"""Suggest the name that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.nearest import nearest


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "", likeness: float = 0.5) -> str:
    """Return the end of a message about an unknown name: a suggestion of the most similar known one, or `otherwise`.

    It begins with "; " unless it is empty. `likeness` is the minimum similarity of a suggestion, from 0 to 1.
    """
    close = nearest(name, known, likeness)
    hint = f"did you mean {close!r}?" if close else otherwise
    return f"; {hint}" if hint else ""
