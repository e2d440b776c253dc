"""Reporters, which display an experiment as it runs."""

from typing import Any

_HOMES = {
    "CLIReporter": "cli",
    "ExperimentInfo": "info",
    "JupyterNotebookReporter": "notebook",
    "LiveReporter": "live",
    "ProgressReporter": "base",
    "TableReporter": "table_reporter",
    "TrialProgressCallback": "trial_progress",
    "detect_reporter": "detect",
    "node_memory": "info",
    "show": "base",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import an exported name when it is first used."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
