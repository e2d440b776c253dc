"""`Tuner`: an experiment as an object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_runs.process.trial_output import names_of
from kernel_runs.settings.fields import made
from kernel_runs.settings.run import RunConfig
from kernel_runs.storage.copies import is_remote
from kernel_runs.trainable.wrappers import with_datasets
from kernel_tune.errors import TuneError
from kernel_tune.execution.execute import begin_session, execute
from kernel_tune.execution.options import RunOptions
from kernel_tune.execution.outputs import grid_of, listeners
from kernel_tune.execution.plan import ExperimentPlan, RunPlan, placed, seconds_of
from kernel_tune.execution.run_parts import space_of
from kernel_tune.execution.spec import policy_of
from kernel_tune.settings import TuneConfig
from kernel_tune.storage.experiment_files import ExperimentFiles
from kernel_tune.storage.sync import fetch_experiment


class Tuner:
    """Searches hyperparameters: `Tuner(trainable, param_space={...}, tune_config=..., run_config=...).fit()`.

    `trainable` is a function of `config`, a `Trainable` class, the name of one, or an object with `as_trainable()`.
    `param_space` is a dict, or a config with `to_dict()`: `PPOConfig().training(lr=tune.grid_search([...]))`. The two
    settings may also be dicts of their fields. `name` and `callbacks` are short for those of `run_config`. Raises
    TypeError without a trainable, ValueError for two different names.
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Any = None,
        tune_config: TuneConfig | Mapping[str, Any] | None = None,
        run_config: RunConfig | Mapping[str, Any] | None = None,
        name: str | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        if trainable is None:
            raise TypeError("Tuner() needs a trainable: a function, a tune.Trainable class, or the name of one")
        run = made(RunConfig, run_config)
        if name is not None and run.name not in (None, name):
            raise ValueError(f"the experiment has two names, {name!r} and {run.name!r} of run_config: give one")
        self._trainable = trainable
        self._space = space_of(param_space)
        self._tune = made(TuneConfig, tune_config)
        self._run = replace(run, name=name or run.name, callbacks=[*(run.callbacks or ()), *(callbacks or ())])
        self._grid: Any = None
        self._restored = ""
        """The directory of the experiment that this tuner continues."""

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: Any,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Any = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> Tuner:
        """Return a tuner whose `fit` continues the experiment in the directory `path`.

        Its `get_results()` returns the results so far. Settings that are not given here stay as they were, except
        callbacks and the progress reporter, which must be given again. Unfinished trials continue. With
        `resume_errored` failed trials continue from their last checkpoint, with `restart_errored` they begin again.
        Raises TuneError if there is no experiment.
        """
        directory = os.path.abspath(os.path.expanduser(path)) if not is_remote(path) else fetch_experiment(path)
        if not cls.can_restore(directory):
            raise TuneError(f"no experiment to resume is in {path}: Tuner.can_restore(path) says so before")
        state = ExperimentFiles(directory).read_settings()
        run = run_config or state.get("run_config") or RunConfig()
        sync = run.sync_config
        if run.storage_path is not None and is_remote(run.storage_path):
            sync = replace(sync, upload_dir=sync.upload_dir or run.storage_path)
        words = {(True, False): "ERRORED", (False, True): "RESTART_ERRORED", (True, True): "RESTART_ERRORED"}
        word = words.get((resume_errored, restart_errored), "LOCAL")
        home, name = os.path.split(directory)
        run = replace(
            run, storage_path=home, name=name, sync_config=sync, resume=word if resume_unfinished else f"{word}_ONLY"
        )
        tuner = cls(
            trainable,
            param_space=param_space or state.get("param_space"),
            tune_config=tune_config or state.get("tune_config"),
            run_config=run,
        )
        tuner._restored = directory
        return tuner

    @classmethod
    def can_restore(cls, path: str) -> bool:
        """Return whether there is an experiment that can be resumed in a directory, here or at an fsspec address."""
        if is_remote(path):
            from kernel_tune.storage.sync import exists  # here: only for addresses

            return exists(path)
        return ExperimentFiles(os.path.abspath(os.path.expanduser(path))).exist

    def fit(self, datasets: Mapping[str, Any] | None = None) -> Any:
        """Run until every trial has ended, and return a `ResultGrid`. It has the failed trials too, with their errors.

        Each trial gets `datasets` in `config["datasets"]`; choices of the search space there replace them. They are put
        into the object store once, and are not logged.
        """
        plan = self._plan()
        if datasets:
            begin_session()
            plan.experiments[0].trainable = with_datasets(self._trainable, datasets)
        outcome = execute(plan)
        self._grid = grid_of(outcome, self._tune.metric, self._tune.mode)
        return self._grid

    def get_results(self) -> Any:
        """Return the `ResultGrid` of the last `fit`, or of the experiment that was restored.

        Raises RuntimeError if there is neither.
        """
        if self._grid is None and self._restored:
            from kernel_tune.analysis import ResultGrid  # here: most programs use what `fit` returns

            self._grid = ResultGrid(self._restored, self._tune.metric, self._tune.mode)
        if self._grid is None:
            raise RuntimeError("this tuner has no results yet: call fit()")
        return self._grid

    def _plan(self) -> RunPlan:
        tune, run = self._tune, self._run
        local_dir, upload_dir = placed(run.local_dir, run.storage_path, run.sync_config.upload_dir)
        experiment = ExperimentPlan(
            trainable=self._trainable,
            name=run.name,
            config=self._space,
            num_samples=tune.num_samples,
            stop=run.stop,
            local_dir=local_dir,
            trial_name_creator=tune.trial_name_creator,
            trial_dirname_creator=tune.trial_dirname_creator,
            checkpoints=policy_of(run.checkpoint_config, at_end=None),
            max_failures=run.failure_config.max_failures,
            fail_fast=run.failure_config.fail_fast,
            upload_dir=upload_dir,
            sync_to_driver=run.sync_config.sync_to_driver if run.sync_config.sync_artifacts else False,
        )
        plan = RunPlan(
            experiments=[experiment],
            search_alg=tune.search_alg,
            scheduler=tune.scheduler,
            metric=tune.metric,
            mode=tune.mode,
            max_concurrent=tune.max_concurrent_trials or 0,
            seed=tune.seed,
            resume=run.resume,
            settings={
                "param_space": self._space,
                "tune_config": self._tune,
                "run_config": replace(run, callbacks=None, progress_reporter=None),  # these may not be picklable
            },
            options=RunOptions(
                reuse_actors=tune.reuse_actors,
                deterministic=tune.deterministic,
                queue_trials=tune.queue_trials,
                changes_directory=tune.chdir_to_trial_dir,
                printed=names_of(run.log_to_file),
                time_budget_seconds=seconds_of(tune.time_budget_s),
            ),
        )
        verbose = run.verbose if run.verbose is not None else 1
        return listeners(plan, None, run.callbacks, run.progress_reporter, verbose, run.sync_config)
