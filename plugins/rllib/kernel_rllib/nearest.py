"""Suggest the known name that is nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_spec.nearest import nearest


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what an error about an unknown name ends with: "; did you mean 'lr'?", or `otherwise`."""
    close = nearest(name, known, 0.6)
    return f"; did you mean {close!r}?" if close else otherwise
