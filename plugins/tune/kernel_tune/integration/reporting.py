"""What the callbacks of all libraries share: the choice of metrics, and reports with checkpoints."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.session import report
from kernel_tune.errors import MetricError


def wanted(metrics: Any) -> dict[str, str] | None:
    """Return the library's name of each reported metric; None for all. Raises TypeError for other arguments."""
    if metrics is None or metrics == [] or metrics == {}:
        return None
    if isinstance(metrics, str):
        return {metrics: metrics}
    if isinstance(metrics, Mapping):
        return dict(metrics)
    if isinstance(metrics, (list, tuple)):
        return {name: name for name in metrics}
    raise TypeError(
        f"metrics is {metrics!r}: it is a name, a list of names, or a dict of the name to report to the library's name"
    )


def chosen(names: dict[str, str] | None, values: Mapping[str, Any], library: str) -> dict[str, Any]:
    """Return the wanted values as plain numbers. Raises MetricError for a metric that the library has not measured."""
    if names is None:
        return {name: plain(value) for name, value in values.items()}
    for name in names.values():
        if name not in values:
            there = ", ".join(sorted(values)) or "nothing"
            raise MetricError(f"{library} has measured no {name!r} here, only {there}: give metrics of these names")
    return {reported: plain(values[name]) for reported, name in names.items()}


def plain(value: Any) -> Any:
    """Return a scalar of numpy, torch or another library as a Python number; other values as they are."""
    is_scalar = hasattr(value, "item") and getattr(value, "shape", ()) in ((), (1,))
    return value.item() if is_scalar else value


def report_with_checkpoint(metrics: dict[str, Any], save: Callable[[str], Any], filename: str) -> None:
    """Report metrics with a checkpoint of one file, which `save(path)` writes. May raise StopIteration as `report`."""
    with tempfile.TemporaryDirectory(prefix="checkpoint_") as directory:
        save(os.path.join(directory, filename))
        report(metrics, checkpoint=Checkpoint.from_directory(directory))


def listed(given: Any, allowed: Any, argument: str) -> list[str]:
    """Return events that are given as one name or several. Raises ValueError for one that is not `allowed`."""
    events = [given] if isinstance(given, str) else list(given)
    for event in events:
        if event not in allowed:
            raise ValueError(f"{argument} is {given!r}: it is one of {', '.join(sorted(allowed))}, or a list of these")
    return events


def checked_frequency(frequency: int) -> int:
    """Return the number of events between checkpoints, 0 for none. Raises ValueError if it is invalid."""
    if not isinstance(frequency, int) or isinstance(frequency, bool) or frequency < 0:
        raise ValueError(f"frequency is {frequency!r}: it is how many events lie between checkpoints, 0 for none")
    return frequency
