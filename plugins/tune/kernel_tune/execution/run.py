"""`tune.run` and `tune.run_experiments`: experiments as one call with many arguments."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kernel_runs.arguments import refuse_unknown
from kernel_runs.callbacks import Callback
from kernel_runs.process.trial_output import names_of
from kernel_runs.settings.fields import made
from kernel_runs.settings.run import CheckpointConfig, SyncConfig
from kernel_tune.errors import TuneError
from kernel_tune.execution.execute import RunOutcome, execute
from kernel_tune.execution.experiment import Experiment, convert_to_experiments
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.outputs import analysis_of, listeners
from kernel_tune.execution.plan import ExperimentPlan, RunPlan, placed, seconds_of
from kernel_tune.execution.resuming import parse_resume
from kernel_tune.execution.spec import CheckpointPolicy, policy_of
from kernel_tune.searchers.base import Searcher
from kernel_tune.settings import ResumeConfig
from kernel_tune.trial import Status, Trial

_log = logging.getLogger("kernel.tune")


def run(
    run_or_experiment: Any, name: str | None = None, stop: Any = None, config: dict[str, Any] | None = None,
    resources_per_trial: Any = None, num_samples: int = 1, local_dir: str | None = None, upload_dir: str | None = None,
    trial_name_creator: Any = None, loggers: Sequence[Any] | None = None, sync_to_cloud: Any = None,
    sync_to_driver: Any = None, checkpoint_freq: int = 0, checkpoint_at_end: bool = False,
    keep_checkpoints_num: int | None = None, checkpoint_score_attr: str | None = None,
    global_checkpoint_period: float = 10, export_formats: Any = None, max_failures: int = 0,
    fail_fast: bool | str = False, restore: str | None = None, search_alg: Any = None, scheduler: Any = None,
    with_server: bool = False,
    server_port: int = 4321, verbose: int = 2, progress_reporter: Any = None, resume: bool | str = False,
    queue_trials: bool = False, reuse_actors: bool = False, raise_on_failed_trial: bool = True,
    return_trials: bool = False, *,
    metric: str | None = None, mode: str | None = None, trial_dirname_creator: Any = None, sync_config: Any = None,
    checkpoint_config: Any = None, log_to_file: Any = False, callbacks: Sequence[Callback] | None = None,
    max_concurrent_trials: int | None = None, time_budget_s: float | timedelta | None = None,
    storage_path: str | None = None, chdir_to_trial_dir: bool = True, seed: int | None = None,
    deterministic: bool = False, resume_config: ResumeConfig | None = None, **unknown: Any,
) -> Any:  # fmt: skip
    """Run an experiment until every trial has ended, and return an `ExperimentAnalysis` of it.

    `run_or_experiment` is a function of `config`, a `Trainable` class, the name of one, an `Experiment`, or several of
    these as a list or dict (see `run_experiments`), which run concurrently. What an `Experiment` defines itself is not
    taken from the arguments. `config` is the search space, `num_samples` the number of trials, or how often a grid is
    repeated. `stop` is a dict of thresholds, a function `(trial_id, result)`, or a `Stopper`. `resources_per_trial` is
    a dict such as `{"cpu": 2}`. Files are in `local_dir`/`name`, and are copied to `upload_dir` if that is given.
    `checkpoint_freq` is in iterations, `global_checkpoint_period` and `time_budget_s` are in seconds. `verbose` is 0
    (silent) to 3. With `log_to_file` what trials print is also written into files of their directories: True for
    `stdout` and `stderr`, one name, or two names. `resume=True` without a `name` continues the newest experiment of
    that trainable; `resume_config` says which of its trials run again.

    Raises TuneError if trials have failed, unless `raise_on_failed_trial` is False; ValueError for `resume` without an
    experiment to resume; ArgumentError for an unknown argument.
    """
    refuse_unknown("tune.run()", unknown, run)
    if resume and resume_config is not None and resume_config.words:
        resume = f"{parse_resume(resume).source}+{resume_config.words}"
    if isinstance(run_or_experiment, (Experiment, Mapping, list, tuple)):
        experiments = [each.plan() for each in convert_to_experiments(run_or_experiment)]
    else:
        local_dir, upload_dir = placed(local_dir, storage_path, upload_dir or getattr(sync_config, "upload_dir", None))
        policy = CheckpointPolicy(checkpoint_freq, checkpoint_at_end, keep_checkpoints_num, checkpoint_score_attr)
        experiments = [ExperimentPlan(
            trainable=run_or_experiment, name=name, config=config, num_samples=num_samples, stop=stop,
            resources=resources_per_trial, local_dir=local_dir, trial_name_creator=trial_name_creator,
            trial_dirname_creator=trial_dirname_creator, max_failures=max_failures, fail_fast=fail_fast,
            checkpoints=policy if checkpoint_config is None else policy_of(made(CheckpointConfig, checkpoint_config)),
            export_formats=[export_formats] if isinstance(export_formats, str) else export_formats or (),
            restore=restore, upload_dir=upload_dir,
            sync_to_driver=_driver_sync(sync_to_driver, sync_config),
        )]  # fmt: skip
    options = RunOptions(
        deterministic=deterministic, changes_directory=chdir_to_trial_dir, printed=names_of(log_to_file),
        time_budget_seconds=seconds_of(time_budget_s), snapshot_seconds=global_checkpoint_period,
        queue_trials=queue_trials, reuse_actors=reuse_actors,
    )  # fmt: skip
    plan = RunPlan(
        experiments=experiments, search_alg=search_alg, scheduler=scheduler, metric=metric, mode=mode,
        max_concurrent=max_concurrent_trials or 0, seed=seed, resume=resume, with_server=with_server,
        server_port=server_port, options=options,
    )  # fmt: skip
    syncer = sync_to_cloud if sync_to_cloud is not None else sync_config if sync_config is not None else "auto"
    outcome = execute(listeners(plan, loggers, callbacks, progress_reporter, verbose, syncer))
    check_failures(outcome, raise_on_failed_trial)
    return outcome.trials if return_trials else analysis_of(outcome, metric, mode)


def run_experiments(
    experiments: Any, search_alg: Any = None, scheduler: Any = None, with_server: bool = False, server_port: int = 4321,
    verbose: int = 2, progress_reporter: Any = None, resume: bool | str = False, queue_trials: bool = False,
    reuse_actors: bool = False, raise_on_failed_trial: bool = True, concurrent: bool = True,
    callbacks: Sequence[Callback] | None = None,
) -> list[Trial]:  # fmt: skip
    """Run several experiments, `concurrent` or one after another. Return the trials of all.

    `experiments` is an `Experiment`, a dict of name to description such as `{"mine": {"run": function}}`, or a list of
    these. The loggers of an experiment log only its own trials. Raises what `run` raises.
    """
    wanted = convert_to_experiments(experiments)
    one_by_one = isinstance(search_alg, (Searcher, str)) or not concurrent
    groups = [[each] for each in wanted] if one_by_one else [wanted]
    trials: list[Trial] = []
    for group in groups:
        plan = RunPlan(
            experiments=[each.plan() for each in group],
            search_alg=search_alg,
            scheduler=scheduler,
            resume=resume,
            with_server=with_server,
            server_port=server_port,
            options=RunOptions(queue_trials=queue_trials, reuse_actors=reuse_actors),
        )
        outcome = execute(listeners(plan, None, callbacks, progress_reporter, verbose, "auto"))
        trials += outcome.trials
        check_failures(outcome, raise_on_failed_trial)
    return trials


def _driver_sync(sync_to_driver: Any, sync_config: Any) -> Any:
    """Return how files are fetched from other machines: the argument, or the setting of a `SyncConfig`."""
    if sync_to_driver is not None or not isinstance(sync_config, SyncConfig):
        return sync_to_driver
    return sync_config.sync_to_driver if sync_config.sync_artifacts else False


def check_failures(outcome: RunOutcome, raises: bool) -> None:
    """Raise TuneError that names the trials that failed, or log it."""
    failed = [trial for trial in outcome.trials if trial.status is Status.ERROR]
    if not failed:
        return
    first = failed[0]
    text = (
        f"{len(failed)} of {len(outcome.trials)} trials failed: {', '.join(map(str, failed[:5]))}"
        f"{', ...' if len(failed) > 5 else ''}; the first, in {os.path.join(first.logdir, 'error.txt')}:\n"
        f"{first.error_message}"
    )
    if raises:
        raise TuneError(text)
    _log.error("%s", text)
