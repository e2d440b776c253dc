"""The errors of this library; each is also one of kernel's."""

from __future__ import annotations

from kernel_spec.errors import KernelError


class TuneError(KernelError):
    """An experiment could not be run, or some of its trials failed."""


class SearchSpaceError(TuneError, ValueError):
    """A search space, or a point in one, is not what was expected."""


class MetricError(TuneError, KeyError):
    """A trial has not reported the metric that a searcher or a scheduler decides by."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TrialError(TuneError):
    """A trial failed: the message ends with the traceback of its process.

    What the trainable raised is `cause`, and the error is an instance of its type as well, if it could be pickled.
    """

    cause: Exception | None = None


class CheckpointError(TuneError):
    """A checkpoint could not be written, found or read."""


class OptionalDependencyError(TuneError, ImportError):
    """A library that a feature needs is not there, or is there and fails to import (the cause is chained)."""
