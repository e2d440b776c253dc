"""The results of an experiment, trial by trial."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

from kernel_runs.reports import (
    CONFIG,
    DEFAULT_METRIC,
    NUMBER_METRIC,
    TIME_TOTAL_S,
    TIMESTAMP,
    TRAINING_ITERATION,
    TRIAL_ID,
    Report,
    flatten,
    look_up,
    own_keys,
)
from kernel_runs.results.checkpoints import best_checkpoint_path, checkpoint_at, checkpoints_with_results
from kernel_runs.results.comparing import best_of, check, number
from kernel_runs.results.frames import frame_of, pandas
from kernel_runs.results.reading import read_results
from kernel_tune.analysis.comparing import score_of
from kernel_tune.analysis.reading import find_trials, read_state
from kernel_tune.errors import TuneError
from kernel_tune.trial import Trial

_log = logging.getLogger("kernel.tune")


class Configs(list[dict[str, Any]]):
    """Configurations in the order of the trials. `keys()` and `items()` have the trials' directories."""

    def __init__(self, trials: Sequence[Trial], configs: Sequence[dict[str, Any]]) -> None:
        super().__init__(configs)
        self._directories = [trial.logdir for trial in trials]

    def keys(self) -> list[str]:
        """Return the directories of the trials."""
        return self._directories

    def values(self) -> list[dict[str, Any]]:
        """Return the configurations."""
        return list(self)

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield directory and configuration of each trial."""
        return iter(zip(self._directories, self, strict=True))


class ByTrial(dict[str, Any]):
    """Is a dict by the trials' directories, which also accepts a trial's id as key."""

    def __init__(self, trials: Sequence[Trial], values: Sequence[Any]) -> None:
        super().__init__(zip((trial.logdir for trial in trials), values, strict=True))
        self._directory_of = {trial.trial_id: trial.logdir for trial in trials}

    def __missing__(self, key: str) -> Any:
        if key in self._directory_of:
            return self[self._directory_of[key]]
        raise KeyError(f"{key!r} is neither the directory nor the id of a trial")


class Analysis:
    """Reads the trials in a directory, of one experiment or of several, from the files of their loggers.

    `~` is expanded. `default_metric` and `default_mode` are used by methods that are called without them. Raises
    TuneError if there are no trials.
    """

    def __init__(self, experiment_dir: str | os.PathLike[str], default_metric: str | None = None,
                 default_mode: str | None = None, trials: Sequence[Trial] | None = None) -> None:  # fmt: skip
        if default_mode is not None:
            check(default_mode)
        self._directory = os.path.abspath(os.path.expanduser(os.fspath(experiment_dir)))
        self.default_mode = default_mode
        self.trials = list(trials) if trials is not None else self._found()
        """The trials, in the order in which they were made."""
        self.default_metric = default_metric or self._usual_metric()

    def _usual_metric(self) -> str | None:
        """Return the default metric: the number that trials return without a name, if they do."""
        if any(NUMBER_METRIC in trial.last_result for trial in self.trials):
            return NUMBER_METRIC
        return DEFAULT_METRIC if self.default_mode else None

    def _found(self) -> list[Trial]:
        trials = find_trials(self._directory)
        if not trials:
            raise TuneError(
                f"{self._directory} has no trials: no directory there or below it has a result.json or params.json. "
                "Give the directory of an experiment, <storage_path>/<name>; its trials must have run with the JSON "
                "logger."
            )
        return trials

    def history(self, trial: Trial) -> list[Report]:
        """Return all results of a trial in order, from the files of its loggers."""
        return read_results(trial.logdir) or ([trial.last_result] if trial.last_result else [])

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """Return a pandas table with a row for each trial: its last result, or its best by `metric` and `mode`.

        Configurations are columns like `config/lr`; the column `logdir` has the directories.
        """
        if metric is not None:
            mode = mode or self.default_mode or "max"
            check(mode)
        rows = []
        for trial in self.trials:
            chosen = self._row(trial, metric, mode)
            config = {CONFIG: trial.config or chosen.get(CONFIG) or {}}
            rows.append({**chosen, **config, "logdir": trial.logdir})
        return frame_of(rows)

    def _row(self, trial: Trial, metric: str | None, mode: str | None) -> Report:
        if metric is None:
            return trial.last_result
        scored = ((result, number(look_up(result, metric))) for result in self.history(trial))
        return best_of(scored, mode or "max") or {}

    def get_best_trial(self, metric: str | None = None, mode: str | None = None, scope: str = "all",
                       filter_nan_and_inf: bool = True) -> Trial | None:  # fmt: skip
        """Return the best trial, or None if no trial has the metric.

        `scope` is the value of a trial that is compared: "all" its best one, "last" its last one, "avg", "last-5-avg"
        or "last-10-avg" a mean. NaN never counts; infinite values count only without `filter_nan_and_inf`. Raises
        ValueError if there is no metric to compare by.
        """
        metric, mode = self._by(metric, mode)
        check(mode, scope)
        scores = ((trial, score_of(trial, self.history, metric, mode, scope, filter_nan_and_inf))
                  for trial in self.trials)  # fmt: skip
        best: Trial | None = best_of(scores, mode)
        if best is None and self.trials:
            reported = own_keys({name: value for trial in self.trials for name, value in trial.last_result.items()})
            _log.warning("no trial is the best: none has reported a number as %r, but %s", metric, reported)
        return best

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "all"
    ) -> dict[str, Any] | None:
        """Return the configuration of the best trial (see `get_best_trial`)."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "all") -> str | None:
        """Return the directory of the best trial (see `get_best_trial`)."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.logdir

    def get_all_configs(self, prefix: bool = False) -> Configs:
        """Return the configurations of all trials. With `prefix` they are flat, with keys like `config/lr`."""
        configs = [flatten({CONFIG: trial.config}) if prefix else trial.config for trial in self.trials]
        return Configs(self.trials, configs)

    def fetch_trial_dataframes(self) -> ByTrial:
        """Return a pandas table of all results of each trial, by the trials' directories."""
        return ByTrial(self.trials, [frame_of(self.history(trial)) for trial in self.trials])

    @property
    def trial_dataframes(self) -> ByTrial:
        """A pandas table of all results of each trial, by the trials' directories or ids."""
        return self.fetch_trial_dataframes()

    def get_trial_checkpoints_paths(
        self, trial: Trial | str, metric: str = TRAINING_ITERATION
    ) -> list[tuple[str, Any]]:
        """Return path and metric of each checkpoint of a trial, which is given itself or by its directory."""
        directory = os.path.expanduser(trial) if isinstance(trial, str) else trial.logdir
        found = checkpoints_with_results(directory, read_results(directory))
        return [(path, look_up(result, metric)) for path, result in found]

    def get_best_checkpoint(self, trial: Trial | str, metric: str | None = None, mode: str | None = None) -> Any:
        """Return the checkpoint of a trial with the best metric, or None."""
        metric, mode = self._by(metric, mode)
        check(mode)
        directory = os.path.expanduser(trial) if isinstance(trial, str) else trial.logdir
        path = best_checkpoint_path(checkpoints_with_results(directory, read_results(directory)), metric, mode)
        return None if path is None else checkpoint_at(path)

    def get_last_checkpoint(
        self, trial: Trial | str | None = None, metric: str = TRAINING_ITERATION, mode: str = "max"
    ) -> Any:
        """Return the newest checkpoint of a trial, by default of the trial with the most iterations; or None."""
        return self.get_best_checkpoint(trial or self.get_best_trial(metric, mode) or "", TRAINING_ITERATION, "max")

    def _by(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        """Return the metric and mode to compare by. Raises ValueError if there is no metric."""
        metric = metric or self.default_metric
        if metric is None:
            raise ValueError(
                "by which metric? Give one (metric=...), or give the experiment one: tune.TuneConfig(metric=..., "
                "mode=...), tune.run(metric=..., mode=...)"
            )
        return metric, mode or self.default_mode or "max"


class ExperimentAnalysis(Analysis):
    """Reads one experiment, by its directory or the path of a file in it. Its `trials` may be given.

    `stats` and `runner_data` are summaries of the experiment.
    """

    def __init__(self, experiment_checkpoint_path: str | os.PathLike[str], trials: Sequence[Trial] | None = None,
                 default_metric: str | None = None, default_mode: str | None = None, *,
                 stats: dict[str, Any] | None = None,
                 runner_data: dict[str, Any] | None = None) -> None:  # fmt: skip
        path = os.path.expanduser(os.fspath(experiment_checkpoint_path))
        folder = os.path.dirname(path) if path.endswith(".json") else path
        super().__init__(folder, default_metric, default_mode, trials)
        for experiment in read_state(self._directory).get("experiments", []):
            self.default_metric = self.default_metric or experiment.get("metric")
            self.default_mode = self.default_mode or experiment.get("mode")
        self._stats = stats
        self._runner_data = runner_data

    @property
    def experiment_path(self) -> str:
        """The experiment's directory."""
        return self._directory

    @property
    def best_trial(self) -> Trial | None:
        """The trial with the best last value of the experiment's metric. Raises ValueError if it has no metric."""
        return self.get_best_trial(scope="last")

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of `best_trial`."""
        return self.get_best_config(scope="last")

    @property
    def best_logdir(self) -> str | None:
        """The directory of `best_trial`."""
        return self.get_best_logdir(scope="last")

    @property
    def best_result(self) -> Report | None:
        """The last result of `best_trial`."""
        best = self.best_trial
        return None if best is None else best.last_result

    @property
    def best_result_df(self) -> Any:
        """The last result of `best_trial` as a pandas table, by its id."""
        return _by_id([self.best_trial] if self.best_trial is not None else [])

    @property
    def best_dataframe(self) -> Any:
        """All results of `best_trial` as a pandas table."""
        best = self.best_trial
        return frame_of([] if best is None else self.history(best))

    @property
    def best_checkpoint(self) -> Any:
        """The best checkpoint of `best_trial`."""
        best = self.best_trial
        return None if best is None else self.get_best_checkpoint(best)

    @property
    def results(self) -> dict[str, Report]:
        """The last result of each trial, by the trials' ids."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> Any:
        """The last result of each trial as a pandas table, by the trials' ids."""
        return _by_id(self.trials)

    def stats(self) -> dict[str, Any]:
        """Return when it began and reported last (seconds since 1970), and the number of trials by status."""
        if self._stats is not None:
            return self._stats
        last = [trial.last_result for trial in self.trials if number(trial.last_result.get(TIMESTAMP)) is not None]
        counted: dict[str, int] = {}
        for trial in self.trials:
            counted[str(trial.status)] = counted.get(str(trial.status), 0) + 1
        began = [result[TIMESTAMP] - (number(result.get(TIME_TOTAL_S)) or 0.0) for result in last]
        return {
            "start_time": min(began, default=None),
            "timestamp": max((result[TIMESTAMP] for result in last), default=None),
            "num_trials": len(self.trials),
            "statuses": counted,
        }

    def runner_data(self) -> dict[str, Any]:
        """Return the total time (seconds), iterations, results and failures of all trials."""
        if self._runner_data is not None:
            return self._runner_data
        return {
            "total_time": sum(number(trial.last_result.get(TIME_TOTAL_S)) or 0.0 for trial in self.trials),
            "iterations": sum(trial.iteration for trial in self.trials),
            "results": sum(trial.results for trial in self.trials),
            "failures": sum(trial.failures for trial in self.trials),
        }


def _by_id(trials: Sequence[Trial]) -> Any:
    rows = [flatten({**trial.last_result, TRIAL_ID: trial.trial_id}) for trial in trials]
    return pandas().DataFrame(rows).set_index(TRIAL_ID) if rows else pandas().DataFrame()
