"""A run, as loggers, callbacks and progress lines see it, whichever library it belongs to."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from kernel_runs.reports import TRAINING_ITERATION, Report, look_up


@dataclass(eq=False)
class Run:
    """One run of a trainable with one configuration: its progress, and its files. A trial of Tune is one.

    It is data only. Two runs are equal only if they are the same object, so that loggers can use runs as keys.
    """

    trainable_name: str
    config: dict[str, Any] = field(default_factory=dict)
    trial_id: str = ""
    """The id of the run, unique in its experiment."""
    _: KW_ONLY
    experiment_tag: str = ""
    """What distinguishes the run within its experiment: `0_height=40,width=37`."""
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    """The values that a search has chosen, by their path in the configuration: `{"layers/0": 16}`."""
    local_dir: str = ""
    """The directory that contains the run's own directory."""
    name: str = ""
    """The name that is displayed, and the name of the run's directory."""
    last_result: Report = field(default_factory=dict)
    results: int = 0
    """The number of results that it has reported."""
    error_file: str = ""
    """The path of the file with the traceback of its last failure."""
    error_message: str = ""
    """The traceback of its last failure; "" if it has not failed."""

    @property
    def logdir(self) -> str:
        """The run's directory."""
        return os.path.join(self.local_dir, self.name)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed, and does not run again."""
        return bool(self.error_message)

    @property
    def iteration(self) -> int:
        """The iteration of the last result; 0 before the first."""
        return int(self.last_result.get(TRAINING_ITERATION, 0))

    def value(self, metric: str) -> Any:
        """Return a metric of the last result, or None."""
        return look_up(self.last_result, metric)

    def __str__(self) -> str:
        return self.name or f"{self.trainable_name}_{self.trial_id}"

    __repr__ = __str__
