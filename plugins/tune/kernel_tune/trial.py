"""A trial: one configuration, how far it has come, and what it has reported."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.run import Run


class Status(str, enum.Enum):
    """Where a trial stands. PENDING and PAUSED trials may be started; TERMINATED and ERROR are final."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


class ExportFormat:
    """The formats that a model can be exported in."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"


@dataclass
class MetricHistory:
    """Of one metric of one trial: its extremes, its last value."""

    max: float
    min: float
    last: float

    def add(self, value: float) -> None:
        """Take another value."""
        self.max, self.min, self.last = max(self.max, value), min(self.min, value), value


@dataclass(eq=False, repr=False, kw_only=True)
class Trial(Run):
    """A run that is one of several. Data only: the trial loop, the searcher and the scheduler decide about it.

    `local_dir` is the experiment's directory, `trial_id` eight hexadecimal digits, `experiment_tag` is `index` and the
    values that were chosen.
    """

    index: int = 0
    """How many trials of the experiment were made before."""
    resources: Any = None
    status: Status = Status.PENDING
    metrics: dict[str, MetricHistory] = field(default_factory=dict)
    failures: int = 0
    raised: bytes = b""
    """The exception by which it failed last, pickled; nothing where that could not be."""
    location: str = ""
    """Address and process id of where it runs."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What a scheduler notes about it. Kept when an experiment resumes."""

    PENDING = Status.PENDING
    RUNNING = Status.RUNNING
    PAUSED = Status.PAUSED
    TERMINATED = Status.TERMINATED
    ERROR = Status.ERROR

    @property
    def logdir(self) -> str:
        """Where its files are."""
        return os.path.join(self.local_dir, self.extra.get("directory") or self.name)

    @property
    def local_path(self) -> str:
        """Where its files are: the same as `logdir` and `path`."""
        return self.logdir

    path = local_path

    @property
    def checkpoint(self) -> Any:
        """Its newest `Checkpoint` on this machine, None where it has none."""
        from kernel_runs.checkpoint import Checkpoint  # here: few programs ask for it
        from kernel_runs.storage.directories import checkpoint_directories  # see above

        found = checkpoint_directories(self.logdir)
        return Checkpoint(found[-1][1]) if found else None

    @property
    def placement_group_factory(self) -> Any:
        """What is reserved for it, as a `PlacementGroupFactory`; None before that is known."""
        from kernel_runs.resources import PlacementGroupFactory  # see above

        if self.resources is None or isinstance(self.resources, PlacementGroupFactory):
            return self.resources
        return PlacementGroupFactory(self.resources.bundles(), self.resources.strategy)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed for good."""
        return self.status is Status.ERROR

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.status in (Status.TERMINATED, Status.ERROR)

    def is_finished(self) -> bool:
        """Return the same as `has_ended`: schedulers and callbacks that were written for Ray call it."""
        return self.has_ended
