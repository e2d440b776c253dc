"""The work of simulated trials: their metrics, their states, and the resources that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.trial import Trial

Metrics = float | Mapping[str, Any]
"""The metric, or a dict with it and others."""
Curve = Callable[[dict[str, Any], int], Metrics]
"""Returns what a trial with a configuration reports at an iteration (the first is 1)."""
Step = Callable[[dict[str, Any], Any], tuple[Any, Metrics]]
"""One iteration: returns the next state and the report, for a configuration and a state."""


@dataclass
class SimulatedWork:
    """Simulates the progress of a trial: what its checkpoint would contain."""

    state: Any = None
    iteration: int = 0
    seconds: float = 0.0


@dataclass(order=True)
class Event:
    """Records a report of a trial at a time. Events at the same time come in the random order of `order`."""

    time: float
    order: float
    trial_id: str = field(compare=False)
    number: int = field(compare=False)
    """The number of the start of the trial. Events of earlier starts are void."""


def need(trial: Trial) -> dict[str, float]:
    """Return the resources that a trial uses. Those for its actors (`extra_cpu`) are taken from the same."""
    needed: dict[str, float] = {}
    for name, amount in (trial.resources or {"cpu": 1}).items():
        kind = name.lower().removeprefix("extra_")
        needed[kind] = needed.get(kind, 0) + amount
    return needed


def describe(trial: Trial) -> str:
    """Return a trial's name, with its status and iteration."""
    return f"{trial} ({trial.status}, iteration {trial.iteration})"
