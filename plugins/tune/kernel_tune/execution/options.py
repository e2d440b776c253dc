"""Options of how experiments run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunOptions:
    """Says how an experiment runs, apart from its trials."""

    reuse_actors: bool = False
    deterministic: bool = False
    """Process answers in the order in which processes were asked, so that a seeded run is the same every time."""
    changes_directory: bool = True
    printed: tuple[str, str] = ("", "")
    """The files for stdout and stderr in trials' directories; "" for none."""
    queue_trials: bool = False
    """Wait for further machines if no machine has room for a trial."""
    time_budget_seconds: float | None = None
    snapshot_seconds: float = 10.0
    slice_seconds: float = 0.05
    sync_to_driver: Mapping[str, Any] = field(default_factory=dict)
    """How files of trials on other machines are fetched, by experiment; see `transfers.make_transfer`."""
