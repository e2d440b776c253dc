"""What the trial loop asks for. A runner carries instructions out in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernel_runs.reports import Report
from kernel_tune.trainable.orders import Saved
from kernel_tune.trial import Trial


@dataclass
class Start:
    """Run a trial, from a state if there is one. The first `skip` results of it are known already."""

    trial: Trial
    state: Saved | None = None
    skip: int = 0


@dataclass
class Continue:
    """Have a running trial train on."""

    trial: Trial


@dataclass
class Save:
    """Have a running trial save: to "disk", or to "memory"."""

    trial: Trial
    where: str


@dataclass
class LoadState:
    """Have a running trial go on from another's state with another configuration."""

    trial: Trial
    state: Saved | None


@dataclass
class Stop:
    """End the process of a trial. `exports`: the model formats to write before. One that has `failed` is not kept."""

    trial: Trial
    exports: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass
class Delete:
    """Delete a checkpoint that is kept no longer."""

    trial: Trial
    saved: Saved


@dataclass
class Write:
    """Append a line to a file in the experiment's directory."""

    file_name: str
    line: str


@dataclass
class Notify:
    """Tell who listens; `event` is the name of a `Callback` method without its `on_`."""

    event: str
    trial: Trial
    results: list[Report] = field(default_factory=list)
    checkpoint: Any = None


Instruction = Start | Continue | Save | LoadState | Stop | Delete | Write | Notify
