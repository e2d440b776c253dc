"""Settings of a run: its files, its checkpoints, handling of failures, copies elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.settings.fields import made, refuses_unknown


@refuses_unknown
@dataclass
class FailureConfig:
    """What happens when trials fail. Each runs again up to `max_failures` times (-1: always), or `fail_fast` ends all.

    With `fail_fast="raise"` the exception of the trial is raised at once, without waiting for other trials. Raises
    ValueError if both are given.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        if not isinstance(self.fail_fast, bool) and self.fail_fast != "raise":
            raise ValueError(f"fail_fast is {self.fail_fast!r}: it is True, False or 'raise'")
        if self.fail_fast and self.max_failures:
            raise ValueError(
                f"fail_fast={self.fail_fast!r} ends all at the first failure, but max_failures={self.max_failures!r} "
                "lets trials run again: give one of them"
            )


@refuses_unknown
@dataclass
class CheckpointConfig:
    """When trials save their state, and which checkpoints are kept.

    `checkpoint_frequency` is in iterations, with 0 none are saved. It is for classes, as is `checkpoint_at_end`;
    functions report checkpoints themselves. If `checkpoint_at_end` is None, a `Tuner` saves classes that can be saved
    at the end, and `tune.run` does not. `num_to_keep` checkpoints are kept, at least 1: the best by
    `checkpoint_score_attribute` ("max" or "min" by `checkpoint_score_order`), and always the newest.
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


@refuses_unknown
@dataclass
class SyncConfig:
    """Where an experiment is copied, and how.

    `upload_dir` is any fsspec address. `syncer` is "auto" (by fsspec), None (no copies), a command with `{source}` and
    `{target}`, or a function of both. `sync_period` is in seconds; the last copy is made at the end.

    Files that trials write into their directories on other machines are copied to the driver's machine by kernel,
    unless `sync_artifacts` is False. `sync_to_driver` may be a command or a function that copies them instead: it is
    called on the driver's machine, with a path or `user@host:/path`.
    """

    upload_dir: str | None = None
    syncer: Any = "auto"
    sync_period: float = 300.0
    sync_on_checkpoint: bool = True
    sync_artifacts: bool = True
    sync_to_driver: Any = None


@refuses_unknown
@dataclass
class RunConfig:
    """Where an experiment's files are, when it ends, and what is called as it proceeds.

    `storage_path` is a directory or an fsspec address, `~/kernel_results` by default; files are in its folder `name`.
    `stop` is a dict of thresholds, a function, a `Stopper` or a list of these. With `log_to_file` what trials print is
    also written into files of their directories: True for `stdout` and `stderr`, one name, or two names. `resume` is
    "AUTO" to continue the experiment of that name if it exists, True if it must exist, and False (the default) to begin
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
