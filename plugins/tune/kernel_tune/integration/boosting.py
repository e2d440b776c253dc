"""What the callbacks for gradient boosting share: their arguments, and when they save."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel_runs.session import report
from kernel_tune.integration.reporting import checked_frequency, chosen, report_with_checkpoint, wanted

Postprocessing = Callable[[dict[str, Any]], dict[str, Any]]


class BoostingReporter:
    """Reports metrics of each boosting round, and saves the model every `frequency` rounds (0: never) and at the end.

    `metrics` are names like "eval-logloss" (data set, then the library's metric), a list, or a dict of the name to
    report to such a name; None reports all. `results_postprocessing_fn(metrics)` may change what is reported.
    """

    library = ""

    def __init__(self, metrics: Any, filename: str, frequency: int, checkpoint_at_end: bool,
                 results_postprocessing_fn: Postprocessing | None) -> None:  # fmt: skip
        super().__init__()
        self._metrics = wanted(metrics)
        self._filename = filename
        self._frequency = checked_frequency(frequency)
        self._checkpoint_at_end = checkpoint_at_end
        self._postprocess = results_postprocessing_fn

    def _is_due(self, rounds: int) -> bool:
        """Return whether the model is to be saved after this number of rounds."""
        return self._frequency > 0 and rounds % self._frequency == 0

    def _reported(self, values: Mapping[str, Any]) -> dict[str, Any]:
        metrics = chosen(self._metrics, values, self.library)
        return self._postprocess(metrics) if self._postprocess else metrics

    def _report(self, metrics: dict[str, Any], model: Any = None) -> None:
        """Report, with a checkpoint of the model if one is given."""
        if model is not None:
            report_with_checkpoint(metrics, model.save_model, self._filename)
        elif metrics:
            report(metrics)
