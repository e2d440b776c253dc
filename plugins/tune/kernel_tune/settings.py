"""What users set up an experiment with: `TuneConfig`, `ResumeConfig`, and what all runs are set up with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar

from kernel_runs.settings.fields import made, refuses_unknown
from kernel_runs.settings.run import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from kernel_tune.trial import Trial

__all__ = [
    "CheckpointConfig", "FailureConfig", "ResumeConfig", "ResumeType", "RunConfig", "SyncConfig", "TuneConfig", "made",
]  # fmt: skip


@refuses_unknown
@dataclass
class TuneConfig:
    """How to search.

    `num_samples` is how many trials there are, or how often a grid is gone through (-1: without an end). `metric` and
    `mode` ("max" or "min") say what is optimised. `search_alg` and `scheduler` are objects or names. `time_budget_s` is
    in seconds. With `queue_trials` trials that no machine has room for wait for one; that is an error otherwise. `seed`
    makes everything that is random repeat; with `deterministic` a run with several trials at once also takes their
    results in the same order each time, at the price of waiting for the slower ones.
    """

    metric: str | None = None
    mode: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool = True
    queue_trials: bool = False
    seed: int | None = None
    deterministic: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"mode is {self.mode!r}: it is 'min' or 'max'")
        if isinstance(self.num_samples, bool) or not isinstance(self.num_samples, int) or self.num_samples < -1:
            raise ValueError(f"num_samples is {self.num_samples!r}: it is a number of trials, or -1 for no end")


class ResumeType(Enum):
    """What becomes of a trial when its experiment goes on: so does it, or it begins anew, or it is left as it is."""

    RESUME = "resume"
    RESTART = "restart"
    SKIP = "skip"


@refuses_unknown
@dataclass
class ResumeConfig:
    """Which trials of an experiment that goes on run again, by what had become of them; each is a `ResumeType`.

    Trials that had ended are left as they are, those that had not go on where they were: these can be left (`SKIP`),
    too. Those that failed are left, go on from their last checkpoint, or begin anew.
    """

    finished: ResumeType | str = ResumeType.SKIP
    unfinished: ResumeType | str = ResumeType.RESUME
    errored: ResumeType | str = ResumeType.SKIP

    ResumeType: ClassVar[type[Enum]] = ResumeType

    def __post_init__(self) -> None:
        for name in ("finished", "unfinished", "errored"):
            setattr(self, name, ResumeType(getattr(self, name)))
        if self.finished is not ResumeType.SKIP:
            raise ValueError(f"finished is {self.finished!s}: a trial that has ended well is not run again, but SKIP")
        if self.unfinished is ResumeType.RESTART:
            raise ValueError("unfinished is ResumeType.RESTART: such trials go on where they were (RESUME), or SKIP")

    @property
    def words(self) -> str:
        """The same as what `resume` of a run is set to."""
        again = {ResumeType.SKIP: "", ResumeType.RESUME: "ERRORED", ResumeType.RESTART: "RESTART_ERRORED"}
        only = "ONLY" if self.unfinished is ResumeType.SKIP else ""
        return "_".join(filter(None, (again[ResumeType(self.errored)], only)))
