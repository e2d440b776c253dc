"""Machines that come and go by themselves: what a cluster needs is bought, and what is idle is given back.

Each name is loaded when it is first used.
"""

from typing import Any

_HOMES = {
    "Autoscaler": "kernel_autoscaler.core.autoscaler",
    "Kind": "kernel_autoscaler.core.kinds",
    "Settings": "kernel_autoscaler.core.settings",
    "request": "kernel_autoscaler.requests",
    "status": "kernel_autoscaler.requests",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernel_autoscaler' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
