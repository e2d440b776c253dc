"""Logging to MLflow: one run a trial."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.errors import RunError
from kernel_runs.loggers.base import LoggerCallback
from kernel_runs.loggers.encoding import text_of
from kernel_runs.loggers.flat import flat_of
from kernel_runs.optional import needed
from kernel_runs.reports import TIMESTAMP, TIMESTEPS_TOTAL, TRAINING_ITERATION, Report, flatten
from kernel_runs.run import Run

_TRIAL_TAG = "trial_id"
_MOST_PARAMETERS = 100
_LONGEST_VALUE = 500


class MLflowLoggerCallback(LoggerCallback):
    """Logs each trial as an MLflow run: parameters, metrics, and with `save_artifact` the files of its directory.

    `tracking_uri` is a directory, a database or a server; by default what MLflow is configured with. `experiment_name`
    is created if it does not exist; by default MLFLOW_EXPERIMENT_ID or MLFLOW_EXPERIMENT_NAME name it. `tags` are added
    to each run. With `log_params_on_trial_end` the parameters are logged last. A resumed experiment finds the run of a
    trial by its tag `trial_id`, and logs nothing twice. Raises RunError if no experiment is named.
    """

    hears_again = True

    def __init__(self, tracking_uri: str | None = None, *, registry_uri: str | None = None,
                 experiment_name: str | None = None, tags: dict[str, Any] | None = None,
                 tracking_token: str | None = None, save_artifact: bool = False,
                 log_params_on_trial_end: bool = False) -> None:  # fmt: skip
        self.tracking_uri = tracking_uri
        self.registry_uri = registry_uri
        self.experiment_name = experiment_name
        self.tags = dict(tags or {})
        self.tracking_token = tracking_token
        self.should_save_artifact = save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._entities: Any = None
        self._client: Any = None
        self._experiment_id = ""
        self._runs: dict[Run, str] = {}
        self._logged: dict[Run, int] = {}
        self._reported: dict[Run, int] = {}

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None,
              **info: Any) -> None:  # fmt: skip
        mlflow = needed("mlflow", type(self).__name__, "mlflow")
        self._entities = needed("mlflow.entities", type(self).__name__, "mlflow")
        if self.tracking_token:
            os.environ["MLFLOW_TRACKING_TOKEN"] = self.tracking_token
        self._client = mlflow.MlflowClient(tracking_uri=self.tracking_uri, registry_uri=self.registry_uri)
        self._experiment_id = self._find_experiment()

    def log_trial_start(self, trial: Run) -> None:
        if trial not in self._runs:
            self._runs[trial], self._logged[trial] = self._find_run(trial)
            self._reported[trial] = trial.results
        if not self.log_params_on_trial_end:
            self._log_parameters(trial)

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        self._reported[trial] += 1
        if self._reported[trial] <= self._logged[trial]:
            return  # runs of MLflow can't be cut: results from before the experiment was resumed are there already
        number = self._reported[trial]
        step = int(result.get(TIMESTEPS_TOTAL) or result.get(TRAINING_ITERATION) or number)
        time = int(float(result.get(TIMESTAMP) or 0) * 1000)
        numbers = {**_numbers(flat_of(result)), TRAINING_ITERATION: float(result.get(TRAINING_ITERATION) or number)}
        metrics = [self._entities.Metric(key, value, time, step) for key, value in numbers.items()]
        self._client.log_batch(self._runs[trial], metrics=metrics)
        self._logged[trial] = number

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        run = self._runs.pop(trial, None)
        if run is None:
            return
        if self.should_save_artifact and os.path.isdir(trial.logdir):
            self._client.log_artifacts(run, local_dir=trial.logdir)
        if self.log_params_on_trial_end:
            self._log_parameters(trial, run)
        self._client.set_terminated(run, status="FAILED" if failed else "FINISHED")
        del self._logged[trial], self._reported[trial]

    def _find_experiment(self) -> str:
        """Return the id of the experiment that an argument or the environment names. It is created if needed."""
        name = self.experiment_name
        if name is None:
            given = os.environ.get("MLFLOW_EXPERIMENT_ID")
            if given:
                return str(given)
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if not name:
            raise RunError(
                f"{type(self).__name__} has no MLflow experiment: give experiment_name=..., or set "
                "MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID"
            )
        there = self._client.get_experiment_by_name(name)
        return str(there.experiment_id if there is not None else self._client.create_experiment(name))

    def _find_run(self, trial: Run) -> tuple[str, int]:
        """Return the id of the run of a trial, which is created if needed, and how many results it has."""
        if trial.results:
            wanted = f"tags.{_TRIAL_TAG} = '{trial.trial_id}'"
            for run in self._client.search_runs([self._experiment_id], wanted):
                there = self._client.get_metric_history(run.info.run_id, TRAINING_ITERATION)
                return run.info.run_id, len(there)
        tags = {**self.tags, "trial_name": str(trial), _TRIAL_TAG: trial.trial_id}
        run = self._client.create_run(self._experiment_id, run_name=str(trial), tags=tags)
        return run.info.run_id, 0

    def _log_parameters(self, trial: Run, run: str = "") -> None:
        given = [(key, text_of(value)[:_LONGEST_VALUE]) for key, value in flatten(trial.config).items()]
        for begin in range(0, len(given), _MOST_PARAMETERS):
            some = [self._entities.Param(*pair) for pair in given[begin : begin + _MOST_PARAMETERS]]
            self._client.log_batch(run or self._runs[trial], params=some)


def _numbers(flat: dict[str, Any]) -> dict[str, float]:
    """Return the values that can be metrics, as floats."""
    found = {}
    for key, value in flat.items():
        if not isinstance(value, (str, bytes)):
            try:
                found[key] = float(value)
            except (TypeError, ValueError, OverflowError):
                continue
    return found
