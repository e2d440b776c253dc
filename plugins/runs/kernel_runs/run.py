"""A run: what loggers, callbacks and progress lines may know of one, whichever library it is of."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from kernel_runs.reports import TRAINING_ITERATION, Report, look_up


@dataclass(eq=False)
class Run:
    """One configuration of a trainable, how far it has come, and where its files are. A trial of Tune is one.

    Data only. Two runs are equal when they are the same object: loggers keep what they have opened by it.
    """

    trainable_name: str
    config: dict[str, Any] = field(default_factory=dict)
    trial_id: str = ""
    """Its id. Of several that belong together each has its own."""
    _: KW_ONLY
    experiment_tag: str = ""
    """What tells it from others of its experiment: `0_height=40,width=37`."""
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    """What was chosen for it, by the path in the configuration: `{"layers/0": 16}`."""
    local_dir: str = ""
    """The directory that its own directory is in."""
    name: str = ""
    """What people see, and the name of its directory."""
    last_result: Report = field(default_factory=dict)
    results: int = 0
    """How many it has reported."""
    error_file: str = ""
    """Where the traceback is by which it failed."""
    error_message: str = ""
    """The traceback itself; nothing while it has not failed."""

    @property
    def logdir(self) -> str:
        """Where its files are."""
        return os.path.join(self.local_dir, self.name)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed for good."""
        return bool(self.error_message)

    @property
    def iteration(self) -> int:
        """Of the last result, 0 before the first."""
        return int(self.last_result.get(TRAINING_ITERATION, 0))

    def value(self, metric: str) -> Any:
        """Return a metric of the last result, or None."""
        return look_up(self.last_result, metric)

    def __str__(self) -> str:
        return self.name or f"{self.trainable_name}_{self.trial_id}"

    __repr__ = __str__
