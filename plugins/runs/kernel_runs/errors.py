"""The errors of runs. Each is also a KernelError."""

from __future__ import annotations

from kernel_spec.errors import KernelError


class RunError(KernelError):
    """A run (a trial, an experiment, a training) could not be started, or has failed. Tune calls it `TuneError`."""


class TrialError(RunError):
    """A run has failed. The message ends with the traceback of its process.

    `cause` is the exception that the trainable raised. If it could be pickled, this error is an instance of its type
    too.
    """

    cause: Exception | None = None


class CheckpointError(RunError):
    """A checkpoint could not be written, found or read."""


class OptionalDependencyError(RunError, ImportError):
    """A library that a feature needs is not installed, or fails to import (the cause is chained)."""
