"""The instructions of the trial loop. A runner carries them out in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernel_runs.reports import Report
from kernel_tune.trainable.orders import Saved
from kernel_tune.trial import Trial


@dataclass
class Start:
    """Run a trial, from a state if there is one. Its first `skip` results are known already."""

    trial: Trial
    state: Saved | None = None
    skip: int = 0


@dataclass
class Continue:
    """Let a running trial continue training."""

    trial: Trial


@dataclass
class Save:
    """Make a running trial save its state to "disk" or to "memory"."""

    trial: Trial
    where: str


@dataclass
class LoadState:
    """Make a running trial continue from the state of another one, with its new configuration."""

    trial: Trial
    state: Saved | None


@dataclass
class Stop:
    """End the process of a trial, after writing models in the formats `exports`. A `failed` one is not kept."""

    trial: Trial
    exports: list[str] = field(default_factory=list)
    failed: bool = False


@dataclass
class DeleteCheckpoint:
    """Delete a checkpoint that is no longer kept."""

    trial: Trial
    saved: Saved


@dataclass
class Write:
    """Append a line to a file in the experiment's directory."""

    file_name: str
    line: str


@dataclass
class Notify:
    """Call callbacks. `event` is the name of a `Callback` method without its `on_`."""

    event: str
    trial: Trial
    results: list[Report] = field(default_factory=list)
    checkpoint: Any = None


Instruction = Start | Continue | Save | LoadState | Stop | DeleteCheckpoint | Write | Notify
