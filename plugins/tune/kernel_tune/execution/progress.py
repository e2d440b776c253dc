"""What the trial loop knows of a trial beside what everybody sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kernel_runs.resources import Demand
from kernel_tune.execution.checkpoint_book import CheckpointBook, Kept
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.trainable.orders import Saved


class Copy(NamedTuple):
    """A trial is to go on from another's state, with this configuration."""

    trial_id: str
    config: dict[str, Any]
    tag: str


class Replacement(NamedTuple):
    """Another's state and configuration, for a trial to go on with; `donor` is the checkpoint, where it is one."""

    copy: Copy
    state: Saved
    donor: Kept | None


@dataclass
class Progress:
    """Where a trial stands, for the loop."""

    spec: ExperimentSpec
    demand: Demand
    book: CheckpointBook
    state: Saved | None = None
    """Where the trial goes on from when it runs again."""
    first_state: Saved | None = None
    """What it was to begin with."""
    state_results: int = 0
    """How many results it had reported in that state."""
    donor: Kept | None = None
    """The checkpoint of another trial that it goes on from."""
    waits_for: str = ""
    """What was asked of its process: "train", "pause", "save" or "end"; nothing if it is not asked anything."""
    saves_to: str = ""
    """Where it was asked to save, if that is what it was asked."""
    stop_asked: bool = False
    pause_asked: bool = False
    replacement: Replacement | None = None
    """What it is to go on from, as soon as what its process was asked is done."""
    copies: list[Copy] = field(default_factory=list)
    """Which trials are to go on from its state, as soon as it has saved."""
    donors: int = 0
    """How many trials are to save their state for it: it is not started before they have."""
    goes_on: bool = False
    """Whether it is to go on though the scheduler said NOOP: what it was to copy was there, or there was nothing."""

    @property
    def is_asked(self) -> bool:
        """Whether something was asked for that is still to be done."""
        return bool(self.pause_asked or self.copies or self.replacement or self.goes_on)
