"""Metrics for Prometheus: those that Serve counts itself, and those of deployments.

In a deployment: `serve.metrics.Counter("orders", tag_keys=("kind",)).inc(tags={"kind": "book"})`. Inside: series and
their text are the kernel's (`kernel.metrics`), `registry.py` has what Serve counts in a process, `gathering.py` asks
all processes of Serve.
"""

from typing import Any

__all__ = ["Counter", "Gauge", "Histogram"]


def __getattr__(name: str) -> Any:
    """Import the classes for deployments when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kernel_serve.metrics import user

    value = globals()[name] = getattr(user, name)
    return value
