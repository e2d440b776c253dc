"""Trying a scheduler out: one process plays the head, thousands of nodes and the programs that use them.

`Simulation` drives a scheduler through its contract alone: events in, instructions out, time from a heap of what
happens when. The same load, scheduler and seed give the same run. `kernel simulate` is its command.

Each name is loaded when it is first used: sessions import this package for its plugin alone.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "engine": ("Simulation",),
    "load": ("Load", "NodeKind"),
    "load_file": ("load_from", "read_load", "write_load"),
    "recording": ("load_of_timeline",),
    "report": ("Report",),
    "scenarios": ("SCENARIOS", "scenario"),
}
_HOMES = {name: f"kernel_simulation.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_simulation' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
