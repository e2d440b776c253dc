"""A trial: one configuration, how far it has come, and what it has reported."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.result import TRAINING_ITERATION, Result, look_up


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


@dataclass(eq=False)
class Trial:
    """Data only: who decides about a trial is the trial loop, the searcher and the scheduler."""

    trainable_name: str
    config: dict[str, Any] = field(default_factory=dict)
    trial_id: str = ""
    """Eight hexadecimal digits."""
    index: int = 0
    """How many trials of the experiment were made before."""
    experiment_tag: str = ""
    """`index`, and the values that were chosen: `0_height=40,width=37`."""
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    """What was chosen for it, by the path in the configuration: `{"layers/0": 16}`."""
    resources: Any = None
    local_dir: str = ""
    """The experiment's directory."""
    name: str = ""
    """What people see, and the name of its directory."""
    status: Status = Status.PENDING
    last_result: Result = field(default_factory=dict)
    results: int = 0
    """How many it has reported."""
    metrics: dict[str, MetricHistory] = field(default_factory=dict)
    failures: int = 0
    error_file: str = ""
    error_message: str = ""
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
        from kernel_tune.storage.checkpoint import Checkpoint, checkpoint_directories  # here: few programs ask for it

        found = checkpoint_directories(self.logdir)
        return Checkpoint(found[-1][1]) if found else None

    @property
    def placement_group_factory(self) -> Any:
        """What is reserved for it, as a `PlacementGroupFactory`; None before that is known."""
        from kernel_tune.execution.resources import PlacementGroupFactory  # see above

        if self.resources is None or isinstance(self.resources, PlacementGroupFactory):
            return self.resources
        return PlacementGroupFactory(self.resources.bundles(), self.resources.strategy)

    @property
    def has_ended(self) -> bool:
        """Whether it will never run again."""
        return self.status in (Status.TERMINATED, Status.ERROR)

    def is_finished(self) -> bool:
        """Return the same as `has_ended`: schedulers and callbacks that were written for Ray call it."""
        return self.has_ended

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
