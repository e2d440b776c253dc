"""Settings of an experiment: `TuneConfig`, `ResumeConfig`, and those of all runs."""

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

    `num_samples` is the number of trials, or how often a grid is repeated; -1 is without an end. `metric` and `mode`
    ("max" or "min") say what is optimised. `search_alg` and `scheduler` are objects or names. `time_budget_s` is in
    seconds. With `queue_trials` trials wait until a machine has room for them; without it, a trial for which no machine
    has room is an error. `seed` makes all random choices reproducible. With `deterministic` results of several trials
    that run at once are also processed in the same order each time, which makes faster trials wait for slower ones.
    Raises ValueError for an impossible mode or number.
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
    """What a resumed experiment does with a trial: it continues it, begins it anew, or skips it."""

    RESUME = "resume"
    RESTART = "restart"
    SKIP = "skip"


@refuses_unknown
@dataclass
class ResumeConfig:
    """Which trials a resumed experiment runs again, by how they ended before; each value is a `ResumeType`.

    `finished` trials are always skipped. `unfinished` ones are resumed, or skipped. `errored` ones are skipped, resumed
    from their last checkpoint, or begun anew. Raises ValueError for other combinations.
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
        """The same choice as a value of `resume`."""
        again = {ResumeType.SKIP: "", ResumeType.RESUME: "ERRORED", ResumeType.RESTART: "RESTART_ERRORED"}
        only = "ONLY" if self.unfinished is ResumeType.SKIP else ""
        return "_".join(filter(None, (again[ResumeType(self.errored)], only)))
