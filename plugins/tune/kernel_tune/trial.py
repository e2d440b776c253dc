"""A trial: a configuration, its progress and its results."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.run import Run


class Status(str, enum.Enum):
    """The state of a trial. PENDING and PAUSED trials can be started; TERMINATED and ERROR are final."""

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
    """The formats in which a model can be exported."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"


@dataclass
class MetricHistory:
    """The largest, the smallest and the last value of one metric of a trial."""

    max: float
    min: float
    last: float

    def add(self, value: float) -> None:
        """Add another value."""
        self.max, self.min, self.last = max(self.max, value), min(self.min, value), value


@dataclass(eq=False, repr=False, kw_only=True)
class Trial(Run):
    """One of the runs of an experiment. Data only: the trial loop, the searcher and the scheduler decide about it.

    `local_dir` is the experiment's directory, `trial_id` eight hexadecimal digits, `experiment_tag` is `index` and the
    values that were chosen.
    """

    index: int = 0
    """The number of trials of the experiment that were made before it."""
    resources: Any = None
    status: Status = Status.PENDING
    metrics: dict[str, MetricHistory] = field(default_factory=dict)
    failures: int = 0
    raised: bytes = b""
    """The pickled exception of its last failure; empty if it could not be pickled."""
    location: str = ""
    """The address and the process id of its process."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Notes of the scheduler. They are kept when an experiment resumes."""

    PENDING = Status.PENDING
    RUNNING = Status.RUNNING
    PAUSED = Status.PAUSED
    TERMINATED = Status.TERMINATED
    ERROR = Status.ERROR

    @property
    def logdir(self) -> str:
        """The directory of its files."""
        return os.path.join(self.local_dir, self.extra.get("directory") or self.name)

    @property
    def local_path(self) -> str:
        """The directory of its files: the same as `logdir` and `path`."""
        return self.logdir

    path = local_path

    @property
    def checkpoint(self) -> Any:
        """Its newest `Checkpoint` on this machine, or None."""
        from kernel_runs.checkpoint import Checkpoint  # here: few programs ask for it
        from kernel_runs.storage.directories import checkpoint_directories  # see above

        found = checkpoint_directories(self.logdir)
        return Checkpoint(found[-1][1]) if found else None

    @property
    def placement_group_factory(self) -> Any:
        """The resources that are reserved for it, as a `PlacementGroupFactory`; None before they are known."""
        from kernel_runs.resources import PlacementGroupFactory  # see above

        if self.resources is None or isinstance(self.resources, PlacementGroupFactory):
            return self.resources
        return PlacementGroupFactory(self.resources.bundles(), self.resources.strategy)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed, and does not run again."""
        return self.status is Status.ERROR

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, and does not run again."""
        return self.status in (Status.TERMINATED, Status.ERROR)

    def is_finished(self) -> bool:
        """Return `has_ended`. Schedulers and callbacks that were written for Ray call it."""
        return self.has_ended
