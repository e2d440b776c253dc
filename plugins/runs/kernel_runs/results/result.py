"""The result of one run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kernel_runs.errors import CheckpointError, RunError
from kernel_runs.raised import error_in
from kernel_runs.reports import AUTO_KEYS, CONFIG, DONE, Report
from kernel_runs.results.checkpoints import best_checkpoint_path, checkpoint_at, checkpoints_with_results
from kernel_runs.results.comparing import check
from kernel_runs.results.frames import frame_of
from kernel_runs.results.reading import is_run, read_config, read_results


@dataclass(eq=False)
class Result:
    """The last metrics of a run, its newest checkpoint, its directory, and its error if it failed.

    `best_checkpoints` are all kept checkpoints, oldest first, each with the metrics of the result after which it was
    saved.
    """

    metrics: Report
    checkpoint: Any = None
    error: Exception | None = None
    path: str = ""
    best_checkpoints: list[tuple[Any, Report]] = field(default_factory=list)
    _config: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the run."""
        if self._config is not None:
            return self._config
        found: dict[str, Any] = self.metrics.get(CONFIG) or {}
        return found

    @property
    def history(self) -> list[Report]:
        """All results of the run, in order."""
        return read_results(self.path) or ([self.metrics] if self.metrics else [])

    @property
    def metrics_dataframe(self) -> Any:
        """All results of the run as a pandas table, with columns like `a/b` for nested values."""
        return frame_of(self.history)

    def get_best_checkpoint(self, metric: str, mode: str) -> Any:
        """Return the checkpoint with the best metrics. Raises CheckpointError if none has that metric."""
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
        """Return the result of the run in a directory. Raises RunError if it is not the directory of a run."""
        directory = os.path.abspath(os.path.expanduser(os.fspath(path)))
        if not os.path.isdir(directory) or not is_run(os.listdir(directory)):
            raise RunError(f"{directory} is not the directory of a run: it has neither result.json nor progress.csv")
        history = read_results(directory)
        metrics = history[-1] if history else {}
        found = checkpoints_in(directory)
        return cls(
            metrics=metrics,
            checkpoint=found[-1][0] if found else None,
            error=None if metrics.get(DONE) is True else error_in(directory),
            path=directory,
            best_checkpoints=found,
            _config=read_config(directory) or metrics.get(CONFIG) or {},
        )

    def __repr__(self) -> str:
        shown = {key: value for key, value in self.metrics.items() if key not in AUTO_KEYS}
        error = f", error={type(self.error).__name__}" if self.error is not None else ""
        return f"Result(metrics={shown}, path={self.path!r}, checkpoint={self.checkpoint!r}{error})"


def checkpoints_in(directory: str) -> list[tuple[Any, Report]]:
    """Return the kept checkpoints in a run's directory, oldest first, each with the metrics of its result."""
    if not checkpoints_with_results(directory, ()):  # saves reading the results
        return []
    found = checkpoints_with_results(directory, read_results(directory))
    return [(checkpoint_at(path), metrics) for path, metrics in found]
