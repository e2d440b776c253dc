"""Plans: a run as users describe it, with its experiments, their search and their display."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kernel_runs.arguments import check_number
from kernel_runs.callbacks import Callback
from kernel_runs.storage.copies import is_remote
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.spec import CheckpointPolicy
from kernel_tune.trial import Trial


@dataclass
class ExperimentPlan:
    """Holds one experiment, as users describe it."""

    trainable: Any
    name: str | None = None
    config: Any = None
    num_samples: int = 1
    stop: Any = None
    resources: Any = None
    local_dir: str | None = None
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    max_failures: int = 0
    fail_fast: bool | str = False
    export_formats: Sequence[str] = ()
    restore: str | None = None
    upload_dir: str | None = None
    sync_to_driver: Any = None
    """How files of trials on other machines are fetched; see `transfers.make_transfer`."""
    loggers: Sequence[Any] | None = None
    """The loggers of its trials; None for those of the run."""


@dataclass
class RunPlan:
    """Holds one run: its experiments, and how they are searched and displayed."""

    experiments: list[ExperimentPlan]
    search_alg: Any = None
    scheduler: Any = None
    metric: str | None = None
    mode: str | None = None
    max_concurrent: int = 0
    seed: int | None = None
    callbacks: Sequence[Callback] = ()
    hears_only: dict[int, set[str]] = field(default_factory=dict)
    """The names of the experiments that a callback is limited to, by `id(callback)`."""
    report: Callable[[TrialLoop, float, bool], None] = lambda loop, seconds, done: None
    """Shows the progress, given the loop, the seconds used so far, and whether the experiment has ended."""
    close: Callable[[], None] = lambda: None
    """Is called when the run is over, also after an error."""
    resume: bool | str = False
    concurrent: bool = True
    with_server: bool = False
    server_port: int = 4321
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings that `Tuner.restore` needs."""
    syncer: Any = "auto"
    sync_period: float = 300.0
    options: RunOptions = field(default_factory=RunOptions)


def placed(local_dir: str | None, storage_path: str | None, upload_dir: str | None) -> tuple[str | None, str | None]:
    """Return the directory that contains experiments (None for the default), and the address that they are copied to.

    `storage_path` may be either of these. It takes precedence over `local_dir`.
    """
    if storage_path is not None and is_remote(storage_path):
        return None, storage_path
    return storage_path or local_dir, upload_dir


def seconds_of(budget: float | timedelta | None) -> float | None:
    """Return a time budget in seconds. Raises ArgumentError for a negative one."""
    if not isinstance(budget, timedelta) and budget is not None:
        check_number("tune", "time_budget_s", budget, least=0)
    return budget.total_seconds() if isinstance(budget, timedelta) else budget
