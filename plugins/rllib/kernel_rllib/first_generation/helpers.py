"""Small helpers of the first generation: lists out of anything, mix-ins, and comparisons for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernel_rllib.first_generation.frameworks import try_import_tf, try_import_torch


def force_list(elements: Any = None, to_tuple: bool = False) -> Any:
    """Return a list, or a tuple: of all in a list or tuple, of anything else alone, of nothing where None is given."""
    made = tuple if to_tuple else list
    if elements is None:
        return made()
    return made(elements) if isinstance(elements, (list, tuple)) else made([elements])


def force_tuple(elements: Any = None, *, to_tuple: bool = True) -> Any:
    """Return what `force_list` does, by default as a tuple."""
    return force_list(elements, to_tuple)


def add_mixins(base: type, mixins: Iterable[type] | None) -> type:
    """Return a class that is derived from mixins and from `base`; what several define is that of the first."""
    found = base
    for mixin in reversed(list(mixins or ())):
        found = type(base.__name__, (mixin, found), {"__doc__": base.__doc__})
    return found


def check_framework(framework: str | None = "tf") -> str | None:
    """Return the name of a framework, where it is installed.

    Raises:
        ImportError: If it is not.
        ValueError: If it is none of "tf", "torch" and None.
    """
    if framework == "tf":
        try_import_tf(error=True)
    elif framework == "torch":
        try_import_torch(error=True)
    elif framework is not None:
        raise ValueError(f"framework is {framework!r}, but must be 'tf', 'torch' or None")
    return framework


def check(
    x: Any, y: Any, decimals: int = 5, atol: float | None = None, rtol: float | None = None, false: bool = False
) -> None:
    """Compare two structures of dicts, lists, tuples, arrays and numbers.

    Args:
        x: One of them; it may hold tensors.
        y: The other one.
        decimals: The number of places after the point that count, where neither `atol` nor `rtol` is given.
        atol, rtol: How far numbers may be apart: by this, and by this part of those of `y`.
        false: Whether they are to differ, in any place.

    Raises:
        AssertionError: If they are otherwise.
    """
    try:
        _require_alike(x, y, decimals, atol, rtol)
    except AssertionError:
        if not false:
            raise
        return
    if false:
        raise AssertionError(f"the two are alike, but were to differ: {x!r} and {y!r}")


def _require_alike(x: Any, y: Any, decimals: int, atol: float | None, rtol: float | None) -> None:
    if isinstance(x, Mapping) or isinstance(y, Mapping):
        assert isinstance(x, Mapping) and isinstance(y, Mapping), f"{x!r} is not {y!r}"
        assert x.keys() == y.keys(), f"the keys {sorted(map(str, x))} are not {sorted(map(str, y))}"
        for name in x:
            _require_alike(x[name], y[name], decimals, atol, rtol)
    elif isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        assert len(x) == len(y), f"there are {len(x)} elements, not {len(y)}"
        for one, other in zip(x, y, strict=True):
            _require_alike(one, other, decimals, atol, rtol)
    elif x is None or isinstance(x, (str, bool)):
        assert x == y, f"{x!r} is not {y!r}"
    else:
        found = x.detach().cpu().numpy() if hasattr(x, "detach") else x
        if atol is None and rtol is None:
            np.testing.assert_almost_equal(found, y, decimal=decimals)
        else:
            np.testing.assert_allclose(found, y, atol=atol or 0, rtol=rtol or 0)
