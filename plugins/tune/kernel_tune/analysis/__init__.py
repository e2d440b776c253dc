"""Analysis: finished experiments as objects, tables and pictures."""

from typing import Any

_HOMES = {
    "Analysis": "experiment",
    "ExperimentAnalysis": "experiment",
    "Result": "result",
    "ResultGrid": "grid",
    "write_html": "page",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import an exported name, or a module of this package, when it is first used."""
    import importlib

    if name == "plots":
        return importlib.import_module(f"{__name__}.plots")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
