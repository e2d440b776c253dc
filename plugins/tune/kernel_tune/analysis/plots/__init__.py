"""Plots of experiments, as PNG files.

Each function takes a `ResultGrid`, an analysis or an experiment's directory, and the path of the file to write.
"""

from typing import Any

_HOMES = {
    "learning_curves": "curves",
    "parallel_coordinates": "parallel",
    "parameter_importance": "bars",
    "slices": "scatter",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a plot when it is first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
