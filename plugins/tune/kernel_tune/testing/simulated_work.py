"""What a simulated trial does in an iteration, what it has come to, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.trial import Trial

Metrics = float | Mapping[str, Any]
"""The metric, or a dict with it and others."""
Curve = Callable[[dict[str, Any], int], Metrics]
"""What a trial with a configuration reports at an iteration (the first is 1)."""
Step = Callable[[dict[str, Any], Any], tuple[Any, Metrics]]
"""One iteration: of a configuration and a state it makes the next state and what is reported."""


@dataclass
class SimulatedWork:
    """What a trial has come to: what a checkpoint of it would hold."""

    state: Any = None
    iteration: int = 0
    seconds: float = 0.0


@dataclass(order=True)
class Event:
    """A trial reports at a time; what is due at the same time comes in the random order of `order`."""

    time: float
    order: float
    trial_id: str = field(compare=False)
    number: int = field(compare=False)
    """Counts the starts of the trial: an event of an earlier start is void."""


def need(trial: Trial) -> dict[str, float]:
    """Return what a trial takes of the room: what it wants for its actors (`extra_cpu`) is taken from the same."""
    needed: dict[str, float] = {}
    for name, amount in (trial.resources or {"cpu": 1}).items():
        kind = name.lower().removeprefix("extra_")
        needed[kind] = needed.get(kind, 0) + amount
    return needed


def describe(trial: Trial) -> str:
    """Return a trial's name, with where it stands."""
    return f"{trial} ({trial.status}, iteration {trial.iteration})"
