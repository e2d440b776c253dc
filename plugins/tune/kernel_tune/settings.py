"""What users set up an experiment with: `TuneConfig`, `RunConfig` and what belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar

from kernel_tune.trial import Trial


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


@dataclass
class FailureConfig:
    """What happens when trials fail: each is tried again `max_failures` times (-1: always), or `fail_fast` ends all.

    With `fail_fast="raise"` what the trial has raised is raised from the run at once, and nothing is waited for.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        if not isinstance(self.fail_fast, bool) and self.fail_fast != "raise":
            raise ValueError(f"fail_fast is {self.fail_fast!r}: it is True, False or 'raise'")
        if self.fail_fast and self.max_failures:
            raise ValueError(
                f"fail_fast={self.fail_fast!r} ends all at the first failure, but max_failures={self.max_failures!r} "
                "has trials tried again: say one of them"
            )


@dataclass
class CheckpointConfig:
    """When trials save their state, and which checkpoints are kept.

    The frequency is in iterations, and for classes, as is `checkpoint_at_end`; functions report checkpoints themselves.
    Where that is None, a `Tuner` has classes saved at the end that can be, and `tune.run` has not. `num_to_keep` are
    kept, the best by `checkpoint_score_attribute` ("max" or "min" by `checkpoint_score_order`), and the newest.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None and self.num_to_keep < 1:
            raise ValueError(f"num_to_keep is {self.num_to_keep}: it is at least 1, or None to keep all")
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(f"checkpoint_score_order is {self.checkpoint_score_order!r}: it is 'max' or 'min'")


@dataclass
class SyncConfig:
    """Copying an experiment to where it is kept.

    `upload_dir` is any fsspec address. `syncer` is "auto" (by fsspec), None (no copying), a command with `{source}` and
    `{target}`, or a function of both. `sync_period` is in seconds; copies are also made at the end.

    What trials write into their directories on other machines comes to the program's by kernel itself, unless
    `sync_artifacts` is False; `sync_to_driver` may be a command or a function that does it instead, and is called on
    the program's machine, with a path or `user@host:/path`.
    """

    upload_dir: str | None = None
    syncer: Any = "auto"
    sync_period: float = 300.0
    sync_on_checkpoint: bool = True
    sync_artifacts: bool = True
    sync_to_driver: Any = None


@dataclass
class RunConfig:
    """Where an experiment's files are, when it ends, and who is told.

    `storage_path` is a directory or an fsspec address, `~/kernel_results` by default; files are in the folder `name` of
    it. `stop` is a dict of thresholds, a function, a `Stopper` or a list of these. With `log_to_file` what trials print
    is in files of their directories as well: True for `stdout` and `stderr`, a name, or two names. `resume` is "AUTO"
    to go on with the experiment of that name if there is one, True if there must be one, False (the default) to begin
    anew.
    """

    name: str | None = None
    storage_path: str | None = None
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig = field(default_factory=CheckpointConfig)
    sync_config: SyncConfig = field(default_factory=SyncConfig)
    callbacks: Sequence[Any] | None = None
    progress_reporter: Any = None
    stop: Any = None
    verbose: int | None = None
    log_to_file: Any = False
    resume: bool | str = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        self.failure_config = made(FailureConfig, self.failure_config)
        self.checkpoint_config = made(CheckpointConfig, self.checkpoint_config)
        self.sync_config = made(SyncConfig, self.sync_config)


def made(kind: Any, given: Any) -> Any:
    """Return what is given, or what is made of a dict of its fields, or of nothing."""
    return given if isinstance(given, kind) else kind(**(given or {}))
