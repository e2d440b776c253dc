"""What came of one trial."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.analysis.checkpoints import best_checkpoint_path, checkpoint_at, checkpoints_with_results
from kernel_tune.analysis.comparing import check
from kernel_tune.analysis.frames import frame_of
from kernel_tune.analysis.reading import is_trial, read_results, read_trial
from kernel_tune.errors import CheckpointError, TuneError
from kernel_tune.raised import error_of
from kernel_tune.result import AUTO_KEYS, CONFIG
from kernel_tune.result import Result as Report
from kernel_tune.trial import Trial


@dataclass(eq=False)
class Result:
    """The last metrics of a trial, its newest checkpoint, its directory, and its error if it failed.

    `best_checkpoints` are all checkpoints that are kept, oldest first, each with the metrics of the result after which
    it was saved.
    """

    metrics: Report
    checkpoint: Any = None
    error: Exception | None = None
    path: str = ""
    best_checkpoints: list[tuple[Any, Report]] = field(default_factory=list)
    _config: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def config(self) -> dict[str, Any]:
        """What the trial ran with."""
        if self._config is not None:
            return self._config
        found: dict[str, Any] = self.metrics.get(CONFIG) or {}
        return found

    @property
    def history(self) -> list[Report]:
        """All that the trial has reported, in order."""
        return read_results(self.path) or ([self.metrics] if self.metrics else [])

    @property
    def metrics_dataframe(self) -> Any:
        """All that the trial has reported, as a pandas table with columns like `a/b` for what is nested."""
        return frame_of(self.history)

    def get_best_checkpoint(self, metric: str, mode: str) -> Any:
        """Return the checkpoint whose metrics are best; raise CheckpointError if there is none with that metric."""
        check(mode)
        found = [(str(place), metrics) for place, (_, metrics) in enumerate(self.best_checkpoints)]
        best = best_checkpoint_path(found, metric, mode)
        if best is None:
            known = sorted({key for _, metrics in found for key in metrics if key not in AUTO_KEYS})
            said = f"its checkpoints have {', '.join(known) or 'no metrics'}" if found else "it has no checkpoints"
            raise CheckpointError(f"no checkpoint of {self.path} has the metric {metric!r}: {said}")
        return self.best_checkpoints[int(best)][0]

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Result:
        """Return what came of the trial whose directory it is; raise TuneError if it is not one."""
        directory = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not os.path.isdir(directory) or not is_trial(os.listdir(directory)):
            raise TuneError(f"{directory} is no trial's directory: it has neither result.json nor progress.csv")
        return result_of(read_trial(directory))

    def __repr__(self) -> str:
        shown = {key: value for key, value in self.metrics.items() if key not in AUTO_KEYS}
        error = f", error={type(self.error).__name__}" if self.error is not None else ""
        return f"Result(metrics={shown}, path={self.path!r}, checkpoint={self.checkpoint!r}{error})"


def result_of(trial: Trial) -> Result:
    """Return what came of a trial."""
    checkpoints = []
    found = checkpoints_with_results(trial.logdir, ())
    if found:
        found = checkpoints_with_results(trial.logdir, read_results(trial.logdir))
        checkpoints = [(checkpoint_at(path), metrics) for path, metrics in found]
    return Result(
        metrics=dict(trial.last_result),
        checkpoint=checkpoints[-1][0] if checkpoints else None,
        error=error_of(trial),
        path=trial.logdir,
        best_checkpoints=checkpoints,
        _config=trial.config,
    )
