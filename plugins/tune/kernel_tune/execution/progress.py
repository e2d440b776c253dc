"""The state of a trial that the trial loop keeps besides the trial's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kernel_runs.resources import Demand
from kernel_tune.execution.checkpoint_book import CheckpointBook, Kept
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.trainable.orders import Saved


class Copy(NamedTuple):
    """A request: a trial is to continue from the state of another one, with this configuration."""

    trial_id: str
    config: dict[str, Any]
    tag: str


class Replacement(NamedTuple):
    """Holds a state and a configuration for a trial to continue with. `donor` is the state's checkpoint, if any."""

    copy: Copy
    state: Saved
    donor: Kept | None


@dataclass
class Progress:
    """Records how far a trial has come, and its next step."""

    spec: ExperimentSpec
    demand: Demand
    """The resources that the trial uses while it runs."""
    book: CheckpointBook
    state: Saved | None = None
    """The state that the trial continues from when it runs again."""
    first_state: Saved | None = None
    """The state that the trial was to begin with."""
    state_results: int = 0
    """The number of results that the trial had reported in `state`."""
    donor: Kept | None = None
    """The checkpoint of another trial that it continues from."""
    waits_for: str = ""
    """What its process was asked and has not answered: "train", "pause", "save", "end", or "" for nothing."""
    saves_to: str = ""
    """Where its process was asked to save: "disk", "memory", or "" if it was not asked to save."""
    stop_asked: bool = False
    pause_asked: bool = False
    replacement: Replacement | None = None
    """The state that it continues from as soon as its process has answered."""
    copies: list[Copy] = field(default_factory=list)
    """The trials that continue from its state as soon as it has saved."""
    donors: int = 0
    """The number of trials that are to save their state for it. It is not started before they have."""
    goes_on: bool = False
    """Whether it continues although the scheduler said NOOP: its donor has given a state, or has saved none."""

    @property
    def is_asked(self) -> bool:
        """Whether a request about the trial is still to be fulfilled."""
        return bool(self.pause_asked or self.copies or self.replacement or self.goes_on)

    def release_donor(self) -> None:
        """Let the checkpoint of the donor be deleted: the trial no longer continues from it."""
        if self.donor is not None:
            self.donor.users -= 1
            self.donor = None
