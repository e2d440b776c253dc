"""What programs for the first releases of Ray Tune call, and needs doing no more."""

from __future__ import annotations

from typing import TypeVar

FunctionT = TypeVar("FunctionT")


def function(func: FunctionT) -> FunctionT:
    """Return the function itself: one in a configuration needs no mark."""
    return func
