"""How experiments run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunOptions:
    """How an experiment runs, beside what its trials do."""

    reuse_actors: bool = False
    deterministic: bool = False
    """Take answers in the order of the questions, so that a seeded run is the same every time."""
    changes_directory: bool = True
    printed: tuple[str, str] = ("", "")
    """The files in trials' directories that what they print goes to as well: stdout, stderr."""
    queue_trials: bool = False
    """Wait for machines where all that there are have no room for a trial."""
    time_budget_seconds: float | None = None
    snapshot_seconds: float = 10.0
    slice_seconds: float = 0.05
    sync_to_driver: Mapping[str, Any] = field(default_factory=dict)
    """By experiment, how files of trials on other machines come to the program's; see `transfers.make_transfer`."""
