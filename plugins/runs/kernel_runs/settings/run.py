"""What users set up a run with: where its files are, when it saves, what happens when it fails, what is copied."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.arguments import ArgumentError
from kernel_runs.settings.fields import made, refuses_unknown


@refuses_unknown
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


@refuses_unknown
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


@refuses_unknown
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


@refuses_unknown
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

    @staticmethod
    def _of_older(arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with `max_actor_restarts`, of the first trainers, as what it is called today."""
        if "max_actor_restarts" not in arguments:
            return arguments
        current = dict(arguments)
        restarts = current.pop("max_actor_restarts")
        if "failure_config" in current:
            raise ArgumentError("RunConfig was given max_actor_restarts and failure_config: say it in the latter only")
        text = "RunConfig: max_actor_restarts is now called failure_config=FailureConfig(max_failures=...)"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
        return {**current, "failure_config": FailureConfig(max_failures=restarts)}
