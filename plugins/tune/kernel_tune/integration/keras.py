"""Callbacks by which Keras models report their metrics and save themselves, after each epoch or at other moments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.optional import needed
from kernel_runs.session import report
from kernel_tune.integration.reporting import checked_frequency, chosen, listed, report_with_checkpoint, wanted

_keras = needed("keras", "kernel.tune.integration.keras", "keras")

EVENTS = tuple(
    f"{what}_{when}"
    for what in ("epoch", "train", "test", "predict", "train_batch", "test_batch", "predict_batch")
    for when in ("begin", "end")
)
"""The values of `on`: Keras calls the method `on_<event>`."""
MODEL_FILE = "model.keras"


class TuneReportCallback(_keras.callbacks.Callback):  # type: ignore[misc]
    """Reports metrics of `fit`: `model.fit(..., callbacks=[TuneReportCallback({"accuracy": "val_accuracy"})])`.

    `metrics` is the name of one of Keras' logs, a list of names, or a dict from the name to report to Keras' name; None
    reports all. `on` is one of `EVENTS`, or a list. Raises MetricError in the trial if Keras has not measured a metric.
    """

    def __init__(self, metrics: Any = None, on: str | Sequence[str] = "epoch_end") -> None:
        super().__init__()
        self._metrics = wanted(metrics)
        self._report_on = listed(on, EVENTS, "on")
        for event in self._report_on:
            self._listen(event)

    def _listen(self, event: str) -> None:
        def hear(*arguments: Any, logs: Any = None) -> None:
            given = logs if logs is not None else next((a for a in arguments if isinstance(a, Mapping)), {})
            self._hear(event, dict(given))

        setattr(self, f"on_{event}", hear)

    def _hear(self, event: str, logs: dict[str, Any]) -> None:
        report(chosen(self._metrics, logs, "Keras"))


class TuneReportCheckpointCallback(TuneReportCallback):
    """Reports metrics of `fit`, and saves the model as a checkpoint.

    `checkpoint_on` and `report_metrics_on` are events, `on` is both at once. At the events of `checkpoint_on`, every
    `frequency`th of each kind, metrics and checkpoint are reported together. The checkpoint has the model in the file
    `filename`: the whole model (`.keras`, `.h5`), or only its weights (a name that ends with `.weights.h5`).
    `get_model` reads a whole model.
    """

    def __init__(self, checkpoint_on: str | Sequence[str] = "epoch_end",
                 report_metrics_on: str | Sequence[str] = "epoch_end", metrics: Any = None, *,
                 on: str | Sequence[str] | None = None, filename: str = MODEL_FILE,
                 frequency: int = 1) -> None:  # fmt: skip
        self._checkpoint_on = listed(on or checkpoint_on, EVENTS, "on" if on else "checkpoint_on")
        super().__init__(metrics, listed(on or report_metrics_on, EVENTS, "on" if on else "report_metrics_on"))
        for event in self._checkpoint_on:
            self._listen(event)
        self._frequency = checked_frequency(frequency)
        self._filename = filename if os.path.splitext(filename)[1] else f"{filename}.keras"
        self._counts = dict.fromkeys(self._checkpoint_on, 0)

    @staticmethod
    def get_model(checkpoint: Checkpoint, filename: str = MODEL_FILE) -> Any:
        """Return the model of a checkpoint that this callback has saved as a whole."""
        with checkpoint.as_directory() as directory:
            return _keras.models.load_model(os.path.join(directory, filename))

    def _hear(self, event: str, logs: dict[str, Any]) -> None:
        saves = False
        if event in self._counts:
            self._counts[event] += 1
            saves = self._frequency > 0 and self._counts[event] % self._frequency == 0
        if saves:
            save = self.model.save_weights if self._filename.endswith(".weights.h5") else self.model.save
            report_with_checkpoint(chosen(self._metrics, logs, "Keras"), save, self._filename)
        elif event in self._report_on:
            super()._hear(event, logs)


ReportCheckpointCallback = TuneReportCheckpointCallback
