"""The errors of this library. Each is also a KernelError and a RunError."""

from __future__ import annotations

from kernel_runs.errors import CheckpointError, OptionalDependencyError, RunError, TrialError

__all__ = [
    "CheckpointError", "MetricError", "OptionalDependencyError", "SearchSpaceError", "TrialError", "TuneError",
]  # fmt: skip

TuneError = RunError
"""An experiment could not be run, or some of its trials failed. It is the error of all libraries about runs."""


class SearchSpaceError(TuneError, ValueError):
    """A search space, or a point in one, is invalid."""


class MetricError(TuneError, KeyError):
    """A trial has not reported the metric that a searcher or a scheduler decides by."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
