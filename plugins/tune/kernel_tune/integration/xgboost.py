"""Callbacks by which XGBoost reports its metrics after each round of boosting, and saves the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.optional import needed
from kernel_tune.integration.boosting import BoostingReporter, Postprocessing

_xgboost = needed("xgboost", "kernel.tune.integration.xgboost", "xgboost")

MODEL_FILE = "model.ubj"


class TuneReportCheckpointCallback(BoostingReporter, _xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Reports metrics and saves the model: `xgboost.train(..., evals=[(data, "eval")],
    callbacks=[TuneReportCheckpointCallback({"loss": "eval-logloss"}, frequency=5)])`.

    `metrics`, `frequency` and `results_postprocessing_fn` are those of `BoostingReporter`. `xgboost.cv` has the metrics
    "test-logloss-mean" and "test-logloss-std", and no models. `filename` is the file of the checkpoint; its ending is
    the format. With `checkpoint_at_end` the model is also saved after the last round, with the same metrics again, also
    after early stopping. Raises MetricError in the trial for a metric that XGBoost does not have.
    """

    library = "XGBoost"

    def __init__(self, metrics: Any = None, filename: str = MODEL_FILE, frequency: int = 0,
                 checkpoint_at_end: bool = True,
                 results_postprocessing_fn: Postprocessing | None = None) -> None:  # fmt: skip
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)
        self._last: dict[str, Any] = {}
        self._is_saved = False
        self._stop: StopIteration | None = None

    @staticmethod
    def get_model(checkpoint: Checkpoint, filename: str = MODEL_FILE) -> Any:
        """Return the Booster of a checkpoint that this callback has saved."""
        with checkpoint.as_directory() as directory:
            return _xgboost.Booster(model_file=os.path.join(directory, filename))

    def after_iteration(self, model: Any, epoch: int, evals_log: Mapping[str, Any]) -> bool:
        """Report, and save if it is due. XGBoost calls this after each round; True ends the training."""
        self._last = self._reported(_flat(evals_log))
        self._is_saved = self._is_due(epoch + 1) and hasattr(model, "save_model")
        try:
            self._report(self._last, model if self._is_saved else None)
        except StopIteration as stop:  # XGBoost calls this in a generator, where StopIteration becomes a RuntimeError
            self._stop = stop
        return self._stop is not None

    def after_training(self, model: Any) -> Any:
        """Report the last model, and return it. XGBoost calls this at the end.

        Raises StopIteration if the trial is to stop.
        """
        if self._stop is not None:
            raise self._stop
        if self._checkpoint_at_end and not self._is_saved and hasattr(model, "save_model"):
            self._report(self._last, model)
        return model


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics of each round of boosting, without saving."""

    def __init__(self, metrics: Any = None, results_postprocessing_fn: Postprocessing | None = None) -> None:
        super().__init__(
            metrics, frequency=0, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn
        )


def _flat(evals_log: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest values by data set and metric; for cross validation, means and standard deviations."""
    flat: dict[str, Any] = {}
    for data, metrics in evals_log.items():
        for metric, history in metrics.items():
            newest = history[-1]
            if isinstance(newest, (tuple, list)):
                flat[f"{data}-{metric}-mean"], flat[f"{data}-{metric}-std"] = newest
            else:
                flat[f"{data}-{metric}"] = newest
    return flat
