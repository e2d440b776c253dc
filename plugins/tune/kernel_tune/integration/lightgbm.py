"""Callbacks by which LightGBM reports its metrics after each round of boosting, and saves the model."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.optional import needed
from kernel_tune.integration.boosting import BoostingReporter, Postprocessing

MODEL_FILE = "model.txt"


class TuneReportCheckpointCallback(BoostingReporter):
    """Reports metrics and saves the model: `lightgbm.train(..., valid_sets=[data], valid_names=["eval"],
    callbacks=[TuneReportCheckpointCallback({"loss": "eval-binary_logloss"}, frequency=5)])`.

    `metrics`, `frequency` and `results_postprocessing_fn` are those of `BoostingReporter`. `lightgbm.cv` has the
    metrics "valid-auc-mean" and "valid-auc-stdv". `filename` is the file of the checkpoint. With `checkpoint_at_end`
    the model is also saved after the last planned round. LightGBM does not notify callbacks when it stops early, so set
    a `frequency` as well for that. Raises MetricError in the trial for a metric that LightGBM does not have.
    """

    library = "LightGBM"

    def __init__(self, metrics: Any = None, filename: str = MODEL_FILE, frequency: int = 0,
                 checkpoint_at_end: bool = True,
                 results_postprocessing_fn: Postprocessing | None = None) -> None:  # fmt: skip
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)

    @staticmethod
    def get_model(checkpoint: Checkpoint, filename: str = MODEL_FILE) -> Any:
        """Return the Booster of a checkpoint that this callback has saved."""
        lightgbm = needed("lightgbm", "TuneReportCheckpointCallback.get_model", "lightgbm")
        with checkpoint.as_directory() as directory:
            return lightgbm.Booster(model_file=os.path.join(directory, filename))

    def __call__(self, env: Any) -> None:
        """Report, and save if it is due. LightGBM calls this after each round."""
        is_last = env.iteration == env.end_iteration - 1
        saves = self._is_due(env.iteration + 1) or (is_last and self._checkpoint_at_end)
        self._report(self._reported(_flat(env.evaluation_result_list or ())), env.model if saves else None)


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics of each round of boosting, without saving."""

    def __init__(self, metrics: Any = None, results_postprocessing_fn: Postprocessing | None = None) -> None:
        super().__init__(
            metrics, frequency=0, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn
        )


def _flat(evaluated: Any) -> dict[str, Any]:
    """Return values by data set and metric; for cross validation, means and standard deviations."""
    flat: dict[str, Any] = {}
    for data, metric, value, _, *deviation in evaluated:
        if deviation:
            flat[f"{data}-{metric}-mean"], flat[f"{data}-{metric}-stdv"] = value, deviation[0]
        else:
            flat[f"{data}-{metric}"] = value
    return flat
