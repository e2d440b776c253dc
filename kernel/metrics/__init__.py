"""Metrics that are counted in every process of a session, and read in one place.

`Counter("orders", tag_keys=("kind",)).inc(tags={"kind": "book"})` counts, in programs, tasks and actors; `collect()`
returns the numbers of all processes, `prometheus_text()` the same for Prometheus. Inside: `user.py` has the metrics,
`registry.py` all that a process counts, `reading.py` asks the session.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel.metrics.reading import collect, prometheus_text
    from kernel.metrics.user import Counter, Gauge, Histogram

__all__ = ["Counter", "Gauge", "Histogram", "collect", "prometheus_text"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a process that only counts does not load the code for reading."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "reading" if name in ("collect", "prometheus_text") else "user"
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
