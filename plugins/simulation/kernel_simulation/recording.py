"""Loads from what really ran: the Chrome trace that `kernel timeline` writes.

A trace says which function ran when, for how long and in which process. It does not say what a call asked for nor
since when it waited. So each function becomes a class of work whose calls come when they began, take as long as they
took, and want one CPU; save the load as a file to say it better.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_simulation.distributions import Distribution
from kernel_simulation.load import TASKS, Load, NodeKind, Work
from kernel_spec.errors import OptionError


def load_of_timeline(path: Path, nodes: Sequence[NodeKind]) -> Load:
    """Return the load that a trace recorded, to be run on `nodes`.

    Raises OptionError when the file can't be read, is no trace, or has no call in it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} can't be read as a timeline: {error}") from error
    events = data.get("traceEvents") if isinstance(data, Mapping) else data
    if not isinstance(events, Sequence) or not all(isinstance(event, Mapping) for event in events):
        raise OptionError(f"{path} is not a timeline: expected a list of events, as `kernel timeline` writes")
    calls: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") == "task":
            begun, seconds = _times(event, path)
            calls.setdefault(str(event.get("name", "task")), []).append((begun, seconds))
    if not calls:
        raise OptionError(f"{path} has no call in it; write it with `kernel timeline` while a session has run some")
    first = min(begun for spans in calls.values() for begun, _ in spans)
    work = tuple(_work(name, sorted(spans), first) for name, spans in sorted(calls.items()))
    return Load(path.stem, tuple(nodes), work)


def _times(event: Mapping[str, Any], path: Path) -> tuple[float, float]:
    """Return when a call began and how long it took, in seconds."""
    try:
        return float(event["ts"]) / 1e6, float(event["dur"]) / 1e6
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(f"{path}: an event lacks ts or dur in microseconds: {dict(event)}") from error


def _work(name: str, spans: Sequence[tuple[float, float]], first: float) -> Work:
    return Work(
        name,
        TASKS,
        len(spans),
        Distribution("values", {"values": [max(0.0, seconds) for _, seconds in spans]}),
        Distribution("times", {"times": [begun - first for begun, _ in spans]}),
    )
